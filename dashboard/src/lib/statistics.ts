/** Statistics that the API does not compute: intervals, tests, correlations and axis ticks. */

export function mean(values: ArrayLike<number>): number {
  if (values.length === 0) return Number.NaN;
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number;
  return sum / values.length;
}

export function deviation(values: ArrayLike<number>): number {
  const n = values.length;
  if (n < 2) return Number.NaN;
  const middle = mean(values);
  let sum = 0;
  for (let i = 0; i < n; i++) sum += ((values[i] as number) - middle) ** 2;
  return Math.sqrt(sum / (n - 1));
}

/** 97.5 % quantile of Student's t distribution: a table up to ten degrees of freedom, an expansion above. */
export function tQuantile(degrees: number): number {
  const table = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
  if (degrees < 1) return Number.NaN;
  const exact = table[Math.floor(degrees) - 1];
  if (exact !== undefined) return exact;
  // Cornish-Fisher expansion: error below 0.001 from eleven degrees on.
  const z = 1.959964;
  const v = degrees;
  return z + (z ** 3 + z) / (4 * v) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * v * v);
}

export function pearson(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const n = Math.min(a.length, b.length);
  if (n < 3) return Number.NaN;
  let ma = 0;
  let mb = 0;
  for (let i = 0; i < n; i++) {
    ma += a[i] as number;
    mb += b[i] as number;
  }
  ma /= n;
  mb /= n;
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < n; i++) {
    const da = (a[i] as number) - ma;
    const db = (b[i] as number) - mb;
    ab += da * db;
    aa += da * da;
    bb += db * db;
  }
  // The correlation with a constant is undefined, not zero.
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : Number.NaN;
}

function logFactorial(n: number): number {
  let sum = 0;
  for (let i = 2; i <= n; i++) sum += Math.log(i);
  return sum;
}

/** Complementary error function (Abramowitz and Stegun 7.1.26), enough for a significance mark. */
function erfc(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = poly * Math.exp(-x * x);
  return x >= 0 ? tail : 2 - tail;
}

/** P value of the two-sided sign test of `wins` against `losses`, without ties. */
export function signTest(wins: number, losses: number): number {
  const n = wins + losses;
  if (n === 0) return 1;
  const most = Math.max(wins, losses);
  if (n <= 60) {
    let tail = 0;
    const base = logFactorial(n) - n * Math.LN2;
    for (let k = most; k <= n; k++) tail += Math.exp(base - logFactorial(k) - logFactorial(n - k));
    return Math.min(1, 2 * tail);
  }
  const z = (most - n / 2 - 0.5) / Math.sqrt(n / 4);
  return Math.min(1, erfc(Math.max(z, 0) / Math.SQRT2));
}

/** P values adjusted by Holm's step-down correction, in the order given. */
export function holm(values: readonly number[]): number[] {
  const order = values.map((p, index) => ({ p, index })).sort((a, b) => a.p - b.p);
  const adjusted = new Array<number>(values.length).fill(1);
  let running = 0;
  order.forEach(({ p, index }, rank) => {
    running = Math.max(running, Math.min(1, p * (values.length - rank)));
    adjusted[index] = running;
  });
  return adjusted;
}

/** Round tick positions between two values, about four to six. */
export function ticks(low: number, high: number, about = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = rough / power;
  const step = power * (unit < 1.5 ? 1 : unit < 3 ? 2 : unit < 7 ? 5 : 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

/** End of an axis that starts at zero: the first multiple of the tick step above the value. */
export function niceCeiling(high: number, about = 5): number {
  if (!(high > 0)) return 1;
  const marks = ticks(0, high, about);
  const step = marks.length > 1 ? (marks[1] as number) - (marks[0] as number) : high;
  return Math.ceil(high / step - 1e-9) * step;
}
