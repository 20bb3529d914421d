/** Recharts in the look of the page: spread these onto axes, grid and tooltip. */
import type { ReactNode } from "react";

export const axis = {
  stroke: "var(--faint)",
  tick: { fill: "var(--faint)", fontSize: 12 },
  tickLine: false,
  axisLine: { stroke: "var(--baseline)" },
} as const;

/** The value axis has no line of its own; the hairlines are enough. */
export const valueAxis = { ...axis, axisLine: false } as const;

export const grid = { stroke: "var(--hair)", vertical: false } as const;

export const margin = { top: 8, right: 8, bottom: 0, left: 0 } as const;

/** The frame of a tooltip, for `content` of Recharts' Tooltip. */
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
