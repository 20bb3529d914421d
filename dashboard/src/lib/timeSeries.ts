/** Points over virtual time, as sparklines and stacked areas draw them. */
export interface SeriesPoint {
  t: number;
  value: number;
}

/** At most 120 evenly chosen points: more are not visible and take time at every update. */
export function thinSeries(points: readonly SeriesPoint[], most = 120): readonly SeriesPoint[] {
  if (points.length <= most) return points;
  const step = (points.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => points[Math.round(i * step)] as SeriesPoint);
}
