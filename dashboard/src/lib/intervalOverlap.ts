/** Test whether two intervals share a point; a leader whose interval does is too close to call. */
export function intervalsOverlap(a: number, halfA: number, b: number, halfB: number): boolean {
  return Math.abs(a - b) <= halfA + halfB;
}
