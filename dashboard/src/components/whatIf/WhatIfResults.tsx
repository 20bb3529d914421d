import type { ComparisonRow, WhatIfResponse } from "../../client/models";
import { type Quantity, quantity, significant } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { classNames } from "../ui/classNames";
import { SchedulerName } from "../ui/SchedulerGlyph";
import { TableHead } from "../ui/TableHead";

type Row = WhatIfResponse["schedulers"][number];
export type Measure = "latency" | "energy" | "cost";

export const MEASURES: readonly { value: Measure; label: string; unit: Quantity }[] = [
  { value: "latency", label: "latency", unit: "time" },
  { value: "energy", label: "energy", unit: "energy" },
  { value: "cost", label: "cost", unit: "cost" },
];

/** Paired change in per cent with its interval, or a text where the interval contains zero. */
export function change(row: Row, measure: Measure): { text: string; sure: boolean; better: boolean } {
  const { baseline, difference, low, high } = row[measure];
  const share = (100 * difference) / baseline;
  const half = (100 * (high - low)) / 2 / baseline;
  const sure = low > 0 || high < 0;
  if (!sure) return { text: low === 0 && high === 0 ? "no change" : "too close to call", sure, better: false };
  // From twice the value on a factor is plainer: "26.4 × ± 1.9".
  const text =
    share >= 100
      ? `${significant(1 + share / 100)} × ± ${significant(half / 100, 2)}`
      : `${share > 0 ? "+" : ""}${significant(share)} ± ${significant(half, 2)} %`;
  return { text, sure, better: difference < 0 };
}

/** Mean of the running run, and what it would be on the changed platform: the same times the simulated change. */
export function expected(
  row: Row,
  measure: Measure,
  comparison: readonly ComparisonRow[],
): { now: number | null; later: number | null } {
  const now = comparison.find(({ name }) => name === row.name)?.[`mean_${measure}`] ?? null;
  const { baseline, changed } = row[measure];
  return { now, later: now === null || !baseline ? null : (now * changed) / baseline };
}

/** What-if results: the run's means now and on the changed platform, with the paired interval of the change. */
export function WhatIfResults({
  rows,
  styles,
  measure,
  comparison,
  busy,
}: {
  rows: readonly Row[];
  comparison: readonly ComparisonRow[];
  styles: ReadonlyMap<string, SchedulerStyle>;
  measure: Measure;
  /** Whether the rows are those of the request before. */
  busy: boolean;
}) {
  const unit = MEASURES.find((m) => m.value === measure)?.unit ?? "time";
  const shares = rows.flatMap((row) => {
    const { baseline, low, high } = row[measure];
    return [low / baseline, high / baseline];
  });
  const reach = Math.max(0.05, ...shares.map(Math.abs));
  const at = (share: number) => 50 + (share / reach) * 48;
  return (
    <table className="w-full border-collapse text-12">
      <caption className="sr-only">What changes, by scheduler: {measure}</caption>
      <TableHead
        columns={[
          ["scheduler"],
          ["now", "text-right"],
          ["what if, about", "text-right"],
          [
            `change, ${significant(-100 * reach, 2)} to +${significant(100 * reach, 2)} %`,
            "w-[34%] text-center max-sm:hidden",
          ],
          ["paired", "text-right"],
        ]}
      />
      <tbody>
        {rows.map((row) => {
          const { baseline, low, high, difference } = row[measure];
          const { now, later } = expected(row, measure, comparison);
          const found = change(row, measure);
          const style = styles.get(row.name);
          const tone = found.sure ? (found.better ? "var(--ok)" : "var(--error)") : "var(--muted)";
          return (
            <tr key={row.name} className="h-8 border-hair border-t">
              <td>{style ? <SchedulerName style={style} /> : row.name}</td>
              <td className="whitespace-nowrap px-1 text-right text-muted">{quantity(now, unit)}</td>
              <td className="whitespace-nowrap px-1 text-right font-semibold">
                {busy ? "…" : quantity(later, unit)}
              </td>
              <td className="px-2 max-sm:hidden">
                <svg
                  viewBox="0 0 100 12"
                  preserveAspectRatio="none"
                  className="marks block h-3 w-full"
                  aria-hidden="true"
                >
                  <line x1="50" x2="50" y1="0" y2="12" stroke="var(--baseline)" vectorEffect="non-scaling-stroke" />
                  <rect
                    x={at(low / baseline)}
                    width={Math.max(0.6, at(high / baseline) - at(low / baseline))}
                    y="2"
                    height="8"
                    fill={tone}
                    opacity="0.3"
                  />
                  <line
                    x1={at(difference / baseline)}
                    x2={at(difference / baseline)}
                    y1="1"
                    y2="11"
                    stroke={tone}
                    strokeWidth="3"
                    vectorEffect="non-scaling-stroke"
                  />
                </svg>
              </td>
              <td
                className={classNames(
                  "text-right",
                  found.sure ? (found.better ? "text-ok" : "text-error") : "text-muted",
                )}
              >
                {/* On a phone the half width is on a line of its own. */}
                {(busy ? "computing" : found.text).split(/(?= ±)/).map((part) => (
                  <span key={part} className="inline-block whitespace-pre">
                    {part}
                  </span>
                ))}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
