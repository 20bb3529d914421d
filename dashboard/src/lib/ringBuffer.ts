/** Ring buffer: a list of fixed capacity that drops its oldest items. */
export class RingBuffer<T> {
  private readonly slots: (T | undefined)[];
  private head = 0;
  private size = 0;

  constructor(readonly capacity: number) {
    this.slots = new Array<T | undefined>(capacity).fill(undefined);
  }

  get length(): number {
    return this.size;
  }

  push(item: T): T | undefined {
    const dropped = this.size === this.capacity ? this.slots[this.head] : undefined;
    this.slots[this.head] = item;
    this.head = (this.head + 1) % this.capacity;
    if (this.size < this.capacity) this.size++;
    return dropped;
  }

  /** 0 is the oldest, −1 the newest. */
  at(index: number): T | undefined {
    const position = index < 0 ? this.size + index : index;
    if (position < 0 || position >= this.size) return undefined;
    return this.slots[(this.head - this.size + position + this.capacity) % this.capacity];
  }

  toArray(): T[] {
    return Array.from({ length: this.size }, (_, i) => this.at(i) as T);
  }

  clear(): void {
    this.slots.fill(undefined);
    this.head = 0;
    this.size = 0;
  }
}
