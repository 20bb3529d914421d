/** Slowdown of a run: a time in which tasks take longer on a device, by their arrival. */
import type { Run, Slowdown } from "../client/models";
import { device as deviceName, tick } from "./format";

/** Times in which tasks take longer on some lanes. */
export interface SlowSpans {
  devices: ReadonlySet<string>;
  spans: readonly (readonly [number, number])[];
  /** The devices in words. */
  who: string;
  label: string;
}

/** Slow times between two seconds; a slowdown with a period comes again and again. */
function slowSpans(
  slowdown: { start: number; until: number; every?: number | null },
  from: number,
  to: number,
): [number, number][] {
  const { start, until, every } = slowdown;
  if (!every) return start < to && until > from ? [[start, until]] : [];
  const spans: [number, number][] = [];
  for (let i = Math.max(0, Math.floor((from - until) / every)); start + i * every < to; i++)
    if (until + i * every > from) spans.push([start + i * every, until + i * every]);
  return spans;
}

/** The slowdown that the configuration of a stored run holds. */
export function slowdownOf(config: Run["config"]): Slowdown | null {
  const physics = config.physics as { slowdown?: Slowdown } | undefined;
  return physics?.slowdown ?? null;
}

/** Times in which a device is slower within a window; null without a slowdown. */
export function slowSpansOf(
  slowdown: Slowdown | null | undefined,
  devices: readonly { name: string; kind: string }[],
  from: number,
  to: number,
): SlowSpans | null {
  if (!slowdown) return null;
  const exact = devices.filter((one) => one.name === slowdown.device);
  const slowed = exact.length ? exact : devices.filter((one) => one.kind === slowdown.device);
  return {
    devices: new Set(slowed.map((one) => one.name)),
    spans: slowSpans(slowdown, from, to),
    who: slowed.length > 1 ? `${slowed.length} ${slowdown.device.toUpperCase()}s` : deviceName(slowdown.device),
    label: `${tick(slowdown.factor)}× slower`,
  };
}
