/** Model versions as marks of the timeline. */
import type { VersionMark } from "../charts/ModelVersionTimeline";
import type { ModelVersion } from "../client/models";
import { count, percent, significant, time } from "../lib/format";

/** Evenly thinned versions that always include the first, the newest and those after drift. */
export function thinVersions(versions: readonly ModelVersion[], most: number): ModelVersion[] {
  if (versions.length <= most) return [...versions];
  const drift = versions.filter((version) => version.trigger === "drift").length;
  const step = versions.length / Math.max(2, most - drift);
  const kept = new Set<number>([0, versions.length - 1]);
  for (let at = 0; at < versions.length; at += step) kept.add(Math.floor(at));
  return versions.filter((version, i) => kept.has(i) || version.trigger === "drift");
}

export function toMarks(versions: readonly ModelVersion[], position: (task: number) => number): VersionMark[] {
  return versions.map((one) => ({
    version: one.version,
    at: position(one.at_task),
    samples: one.samples,
    r2: one.r2,
    trigger: one.trigger,
    drift: one.trigger === "drift",
    given: one.trigger === "pretrained",
    rows: [
      ["at task", count(position(one.at_task))],
      ["samples", count(one.samples)],
      ["R²", significant(one.r2, 5)],
      ...(typeof one.error === "number" ? [["typical error", percent(Math.expm1(one.error))] as const] : []),
      ...(typeof one.loss === "number" ? [["loss", significant(one.loss)] as const] : []),
      ["training took", time(one.seconds)],
    ],
  }));
}
