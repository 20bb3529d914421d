import { useState } from "react";
import { useElementSize } from "../hooks/useElementSize";
import { compact, count } from "../lib/format";
import { niceCeiling, ticks } from "../lib/statistics";
import { TooltipBox } from "./TooltipBox";

export interface Bin {
  low: number;
  high: number;
  n: number;
}

interface HistogramProps {
  bins: readonly Bin[];
  title: string;
  label: string;
}

const LEFT = 36;
const TOP = 8;
const RIGHT = 8;
const BELOW = 20;
/** Pixels that a label of the axis needs. */
const LABEL = 44;

/** Histogram with logarithmic bins, each labelled by its lower edge. */
export function Histogram({ bins, title, label }: HistogramProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const [hover, setHover] = useState<number | null>(null);
  const top = niceCeiling(Math.max(...bins.map((bin) => bin.n), 1), 4);
  const marks = ticks(0, top, 4);
  const plot = height - TOP - BELOW;
  const step = (width - LEFT - RIGHT) / Math.max(1, bins.length);
  const every = Math.max(1, Math.ceil(LABEL / step));
  const bin = hover === null ? undefined : bins[hover];
  return (
    <div className="flex min-h-40 flex-1 flex-col" role="img" aria-label={label}>
      <div
        ref={box}
        className="marks relative min-h-28 flex-1"
        onPointerMove={(event) => {
          const at =
            (event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
          setHover(at >= 0 && at < 1 ? Math.floor(at * bins.length) : null);
        }}
        onPointerLeave={() => setHover(null)}
      >
        {marks.map((mark) => (
          <i
            key={mark}
            className="absolute right-2 h-px bg-hair"
            style={{ left: LEFT, top: TOP + plot * (1 - mark / top) }}
          />
        ))}
        {marks.map((mark) => (
          <span
            key={mark}
            className="absolute -translate-y-1/2 pr-1 text-right text-faint"
            style={{ width: LEFT, top: TOP + plot * (1 - mark / top) }}
          >
            {compact(mark)}
          </span>
        ))}
        {width > 0 && plot > 0 ? (
          // Plain boxes: a chart library would cost a quarter of all script for this one chart.
          <svg aria-hidden="true" width={width} height={height} className="absolute inset-0">
            {bins.map((one, index) => (
              <rect
                key={one.low}
                x={LEFT + index * step + 1}
                y={TOP + plot * (1 - one.n / top)}
                width={Math.max(0.5, step - 2)}
                height={(plot * one.n) / top}
                rx={Math.min(2, step / 4)}
                fill="var(--bar)"
              />
            ))}
            <path d={`M${LEFT},${TOP + plot + 0.5}H${width - RIGHT}`} stroke="var(--baseline)" />
            {bins.map((one, index) =>
              index % every === 0 ? (
                <text
                  key={one.low}
                  x={LEFT + (index + 0.5) * step}
                  y={height - 5}
                  textAnchor="middle"
                  fontSize={12}
                  fill="var(--faint)"
                >
                  {compact(Number(one.low.toPrecision(2)))}
                </text>
              ) : null,
            )}
          </svg>
        ) : null}
        {bin ? (
          <div className="pointer-events-none absolute top-0 z-10" style={{ left: LEFT + 8 }}>
            <TooltipBox
              title={`${count(bin.n)} tasks`}
              rows={[["size", `${count(bin.low)} to ${count(bin.high)}`]]}
            />
          </div>
        ) : null}
      </div>
      <p className="text-center text-muted leading-5">{title}</p>
    </div>
  );
}
