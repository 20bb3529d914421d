/** Blocks of one device in start order, in preallocated columns with binary search. */
export class DeviceTimeline {
  private readonly starts: Float64Array;
  private readonly ends: Float64Array;
  private readonly intensities: Float32Array;
  private readonly tasks: Float64Array;
  /** Prefix sums of busy seconds, plain and weighted by intensity, for constant-time sums over any interval. */
  private readonly sums: Float64Array;
  private readonly weighted: Float64Array;
  private head = 0;
  length = 0;

  constructor(readonly capacity: number) {
    this.starts = new Float64Array(capacity);
    this.ends = new Float64Array(capacity);
    this.intensities = new Float32Array(capacity);
    this.tasks = new Float64Array(capacity);
    this.sums = new Float64Array(capacity);
    this.weighted = new Float64Array(capacity);
  }

  private slot(index: number): number {
    const raw = this.head - this.length + index;
    return raw < 0 ? raw + this.capacity : raw;
  }

  /** Appends a block. One that starts before the last block is left out, because the search needs sorted starts. */
  push(start: number, end: number, intensity: number, task: number): void {
    if (this.length > 0 && start < this.start(this.length - 1)) return;
    const last = this.length > 0 ? this.slot(this.length - 1) : -1;
    const busy = end - start;
    this.sums[this.head] = (last < 0 ? 0 : (this.sums[last] as number)) + busy;
    this.weighted[this.head] = (last < 0 ? 0 : (this.weighted[last] as number)) + busy * intensity;
    this.starts[this.head] = start;
    this.ends[this.head] = end;
    this.intensities[this.head] = intensity;
    this.tasks[this.head] = task;
    this.head = (this.head + 1) % this.capacity;
    if (this.length < this.capacity) this.length++;
  }

  start(index: number): number {
    return this.starts[this.slot(index)] as number;
  }
  end(index: number): number {
    return this.ends[this.slot(index)] as number;
  }
  intensity(index: number): number {
    return this.intensities[this.slot(index)] as number;
  }
  task(index: number): number {
    return this.tasks[this.slot(index)] as number;
  }

  /** Index of the first block that ends after `time`. Blocks of a device do not overlap, so their ends are sorted too. */
  firstEndingAfter(time: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end(middle) > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Busy seconds up to a time, from an arbitrary but fixed origin; `weigh` multiplies them by intensity. */
  upTo(time: number, weigh = false): number {
    const index = this.firstEndingAfter(time);
    const sums = weigh ? this.weighted : this.sums;
    if (index >= this.length) return this.length > 0 ? (sums[this.slot(this.length - 1)] as number) : 0;
    const slot = this.slot(index);
    const rest = (this.ends[slot] as number) - Math.max(time, this.starts[slot] as number);
    return (sums[slot] as number) - rest * (weigh ? (this.intensities[slot] as number) : 1);
  }

  /** Busy seconds within the bounds. */
  busy(from: number, to: number): number {
    return to > from ? this.upTo(to) - this.upTo(from) : 0;
  }

  clear(): void {
    this.head = 0;
    this.length = 0;
  }
}
