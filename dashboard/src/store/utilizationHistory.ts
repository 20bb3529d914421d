/** Busy shares of every scheduler's devices over virtual time, in columns that never grow. */
import type { SimulationUpdate } from "../client/models";

export const PULSE_SAMPLES = 720;

export interface SeriesPoint {
  t: number;
  value: number;
}

export class UtilizationHistory {
  private readonly times = new Float64Array(PULSE_SAMPLES);
  private readonly series = new Map<string, Float32Array>();
  private head = 0;
  length = 0;

  push(update: SimulationUpdate): void {
    this.times[this.head] = update.virtual_time;
    for (const column of this.series.values()) column[this.head] = Number.NaN;
    this.write("u", update.utilizations);
    this.write("b", update.backlogs);
    this.head = (this.head + 1) % PULSE_SAMPLES;
    if (this.length < PULSE_SAMPLES) this.length++;
  }

  private write(kind: "u" | "b", values: Record<string, Record<string, number>> | undefined): void {
    for (const [scheduler, devices] of Object.entries(values ?? {})) {
      for (const [device, value] of Object.entries(devices)) {
        const key = `${kind}|${scheduler}|${device}`;
        let column = this.series.get(key);
        if (!column) {
          column = new Float32Array(PULSE_SAMPLES).fill(Number.NaN);
          this.series.set(key, column);
        }
        column[this.head] = value;
      }
    }
  }

  private read(key: string, from: number): SeriesPoint[] {
    const column = this.series.get(key);
    if (!column) return [];
    const points: SeriesPoint[] = [];
    for (let i = 0; i < this.length; i++) {
      const slot = (this.head - this.length + i + PULSE_SAMPLES) % PULSE_SAMPLES;
      const t = this.times[slot] as number;
      const value = column[slot] as number;
      if (t >= from && !Number.isNaN(value)) points.push({ t, value });
    }
    return points;
  }

  utilisation(scheduler: string, device: string, from = Number.NEGATIVE_INFINITY): SeriesPoint[] {
    return this.read(`u|${scheduler}|${device}`, from);
  }

  backlog(scheduler: string, device: string, from = Number.NEGATIVE_INFINITY): SeriesPoint[] {
    return this.read(`b|${scheduler}|${device}`, from);
  }

  clear(): void {
    this.head = 0;
    this.length = 0;
    this.series.clear();
  }
}

/** The mean of several devices, sample by sample; samples of one update share their time. */
export function meanOf(series: readonly SeriesPoint[][]): SeriesPoint[] {
  const [first] = series;
  if (!first) return [];
  return first.map(({ t }, i) => {
    let sum = 0;
    let n = 0;
    for (const points of series) {
      const point = points[points.length - first.length + i];
      if (point) {
        sum += point.value;
        n++;
      }
    }
    return { t, value: n ? sum / n : Number.NaN };
  });
}
