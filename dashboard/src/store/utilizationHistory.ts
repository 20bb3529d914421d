/** Recent busy shares and backlogs of every scheduler's devices, in columns of fixed size. */
import type { SimulationUpdate } from "../client/models";
import type { SeriesPoint } from "../lib/timeSeries";

const PULSE_SAMPLES = 720;

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

  busyShare(scheduler: string, device: string, from = Number.NEGATIVE_INFINITY): SeriesPoint[] {
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
