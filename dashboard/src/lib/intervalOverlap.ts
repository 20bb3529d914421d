/** Test for overlap of two intervals, given by their centres and half widths. */
export function intervalsOverlap(a: number, halfA: number, b: number, halfB: number): boolean {
  return Math.abs(a - b) <= halfA + halfB;
}
