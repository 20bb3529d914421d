import { useState } from "react";
// Only these four: Recharts' grid, tooltip and container would add 14 kB (gz) to the bundle.
import { Bar, BarChart, XAxis, YAxis } from "recharts";
import { useElementSize } from "../hooks/useElementSize";
import { compact, count } from "../lib/format";
import { niceCeiling, ticks } from "../lib/statistics";
import { axis, TooltipBox, valueAxis } from "./rechartsTheme";

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

/** Histogram with logarithmic bins, each labelled by its lower edge. */
export function Histogram({ bins, title, label }: HistogramProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const [hover, setHover] = useState<number | null>(null);
  const data = bins.map((bin) => ({ ...bin, name: compact(Number(bin.low.toPrecision(2))) }));
  const top = niceCeiling(Math.max(...bins.map((bin) => bin.n), 1), 4);
  const marks = ticks(0, top, 4);
  const plot = height - TOP - BELOW;
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
        {width > 0 && plot > 0 ? (
          <div className="absolute inset-0">
            <BarChart
              width={width}
              height={height}
              data={data}
              margin={{ top: TOP, right: RIGHT, bottom: 0, left: 0 }}
              barCategoryGap={2}
              accessibilityLayer={false}
            >
              <XAxis dataKey="name" {...axis} interval="preserveStartEnd" height={BELOW} />
              <YAxis {...valueAxis} width={LEFT} domain={[0, top]} ticks={marks} tickFormatter={compact} />
              <Bar dataKey="n" fill="var(--bar)" radius={[2, 2, 0, 0]} isAnimationActive={false} />
            </BarChart>
          </div>
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
