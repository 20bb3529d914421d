/** Points over virtual time, as sparklines and stacked areas draw them. */
export interface SeriesPoint {
  t: number;
  value: number;
}

/** The mean of several devices, sample by sample; samples of one update share their time. */
export function meanSeries(series: readonly SeriesPoint[][]): SeriesPoint[] {
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

/** At most 120 evenly chosen points: more are not visible and take time at every update. */
export function thinSeries(points: readonly SeriesPoint[], most = 120): readonly SeriesPoint[] {
  if (points.length <= most) return points;
  const step = (points.length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => points[Math.round(i * step)] as SeriesPoint);
}
