import type { ReactNode } from "react";

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
