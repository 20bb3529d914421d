/** Axis and tooltip settings of Recharts in the page's design. */
import type { ReactNode } from "react";

export const axis = {
  stroke: "var(--faint)",
  tick: { fill: "var(--faint)", fontSize: 12 },
  tickLine: false,
  axisLine: { stroke: "var(--baseline)" },
} as const;

/** A value axis without a line; the grid lines mark it. */
export const valueAxis = { ...axis, axisLine: false } as const;

/** Tooltip with a title and rows of names and values. */
export function TooltipBox({
  title,
  rows,
}: {
  title: ReactNode;
  rows: readonly (readonly [ReactNode, ReactNode])[];
}) {
  return (
    <div className="popover px-2.5 py-2 text-12">
      <p className="mb-0.5 font-semibold">{title}</p>
      {rows.map(([name, value], i) => (
        <p key={i} className="flex justify-between gap-4">
          <span className="text-muted">{name}</span>
          <span>{value}</span>
        </p>
      ))}
    </div>
  );
}
