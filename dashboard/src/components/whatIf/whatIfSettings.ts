/** Sliders of the what-if analysis: ranges, requests and descriptions. */
import type { WhatIfRequest } from "../../client/models";
import { percent, ratio, significant, tick } from "../../lib/format";

export interface Slider {
  key: "num_gpus" | "gpu_speed" | "bandwidth" | "load" | "energy_weight";
  label: string;
  min: number;
  max: number;
  step: number;
  /** Whether the scale is logarithmic. */
  logarithmic?: boolean;
  show: (value: number) => string;
  ends: readonly [string, string];
}

export const SLIDERS: readonly Slider[] = [
  {
    key: "num_gpus",
    label: "GPU count",
    min: 1,
    max: 16,
    step: 1,
    show: (v) => String(v),
    ends: ["1", "16"],
  },
  {
    key: "gpu_speed",
    label: "GPU speed",
    min: 0.25,
    max: 8,
    step: 0.05,
    logarithmic: true,
    show: ratio,
    ends: ["0.25×", "8×"],
  },
  {
    key: "bandwidth",
    label: "Bandwidth",
    min: 500,
    max: 200_000,
    step: 0.02,
    logarithmic: true,
    show: (v) => `${significant(v / 1000)} GB/s`,
    ends: ["0.5", "200 GB/s"],
  },
  {
    key: "load",
    label: "Arrival rate",
    min: 0.05,
    max: 1.2,
    step: 0.01,
    show: (v) => `${percent(v, 2)} of capacity`,
    ends: ["5 %", "120 %"],
  },
  {
    key: "energy_weight",
    label: "Energy weight",
    min: 0,
    max: 1,
    step: 0.05,
    show: (v) => tick(v, 2),
    ends: ["0, time only", "1, energy only"],
  },
];

export type Settings = Record<Slider["key"], number>;

/** Settings of the running platform. The API does not report link bandwidths; every preset has 16 GB/s. */
export function present(gpus: number, load: number): Settings {
  return { num_gpus: Math.max(1, gpus), gpu_speed: 1, bandwidth: 16_000, load, energy_weight: 0 };
}

/** Settings in the address, e.g. "num_gpus:8,load:0.3". Unknown names and values out of range are left out. */
export function parseSettings(text: string | null): Partial<Settings> {
  const found: Partial<Settings> = {};
  for (const item of (text ?? "").split(",")) {
    const [key, value] = item.split(":");
    const slider = SLIDERS.find((one) => one.key === key);
    const number = Number(value);
    if (slider && value && number >= slider.min && number <= slider.max) found[slider.key] = number;
  }
  return found;
}

export function formatSettings(settings: Settings, now: Settings): string | null {
  return (
    changed(settings, now)
      .map(({ key }) => `${key}:${settings[key]}`)
      .join(",") || null
  );
}

export function changed(settings: Settings, now: Settings): Slider[] {
  return SLIDERS.filter((slider) => Math.abs(settings[slider.key] - now[slider.key]) > 1e-9);
}

/** Scenario that stands for the tasks of a trace, which the server cannot draw again. */
const INSTEAD_OF_TRACE = "mixed";

export const isTrace = (scenario: string): boolean => scenario.startsWith("trace:");

export function requestOf(
  settings: Settings,
  now: Settings,
  schedulers: readonly string[],
  scenario: string,
): WhatIfRequest {
  const body: WhatIfRequest = { schedulers: [...schedulers] };
  if (isTrace(scenario)) body.scenario = INSTEAD_OF_TRACE;
  for (const { key } of changed(settings, now)) body[key] = settings[key];
  return body;
}

/** Description of the changed settings: "8 GPUs, 1.50× as fast". */
export function inWords(settings: Settings, now: Settings): string {
  const words: Record<Slider["key"], (v: number) => string> = {
    num_gpus: (v) => `${v} ${v === 1 ? "GPU" : "GPUs"}`,
    gpu_speed: (v) => `${ratio(v)} as fast`,
    bandwidth: (v) => `${significant(v / 1000)} GB/s`,
    load: (v) => `${percent(v, 2)} load`,
    energy_weight: (v) => `energy weight ${tick(v, 2)}`,
  };
  const list = changed(settings, now).map((slider) => words[slider.key](settings[slider.key]));
  return list.length ? list.join(", ") : "The running platform";
}

/** Position of a value on its slider. */
export function toPosition(slider: Slider, value: number): number {
  return slider.logarithmic ? Math.log(value / slider.min) / Math.log(slider.max / slider.min) : value;
}

export function fromPosition(slider: Slider, position: number): number {
  if (!slider.logarithmic) return position;
  const value = slider.min * (slider.max / slider.min) ** position;
  return Number(value.toPrecision(2));
}
