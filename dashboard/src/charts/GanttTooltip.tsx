import type { BlockDetails } from "./ganttModel";

interface GanttTooltipProps {
  details: BlockDetails;
  x: number;
  y: number;
  /** Width of the chart; the tooltip moves to the left of the pointer near its right edge. */
  width: number;
}

/** Details of the block under the pointer. */
export function GanttTooltip({ details: { title, latency, rows }, x, y, width }: GanttTooltipProps) {
  const left = x + 232 > width ? x - 232 : x + 12;
  return (
    <div
      className="popover pointer-events-none absolute z-20 w-[220px] p-2.5"
      style={{ left: Math.max(0, left), top: y + 8 }}
    >
      <p className="mb-1 flex justify-between font-semibold">
        <span>{title}</span>
        <span>{latency}</span>
      </p>
      {rows.map(([name, value]) => (
        <p key={name} className="flex justify-between leading-[18px]">
          <span className="text-muted">{name}</span>
          <span>{value}</span>
        </p>
      ))}
    </div>
  );
}
