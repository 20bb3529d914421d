/** Do two intervals share a point? Then the leader is too close to call. */
export function overlap(a: number, halfA: number, b: number, halfB: number): boolean {
  return Math.abs(a - b) <= halfA + halfB;
}
