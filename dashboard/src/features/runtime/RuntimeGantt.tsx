import { useMemo, useState } from "react";
import type { Program } from "../../client/models";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import type { Tag } from "../../components/widget/panelState";
import { useElementSize } from "../../hooks/useElementSize";
import { count, percent, time } from "../../lib/format";
import type { Cell } from "../../lib/tableData";
import { ON_COLOR } from "./functionColors";
import { type Bar, busySeconds, type Call, packed } from "./programCalls";

/** Most bars in the chart, the newest ones. */
const MOST_BARS = 1_500;
const [LABEL, RIGHT, ROW, GAP, AXIS] = [112, 64, 22, 10, 22];
const SPANS = { "0.1 s": 0.1, "1 s": 1, "10 s": 10, All: Number.POSITIVE_INFINITY };
type Span = keyof typeof SPANS;

interface Lane {
  device: string;
  title: string;
  kind: "calls" | "copies";
  bars: Bar[];
  top: number;
  rows: number;
  busy: number | null;
}

function lanesOf(program: Program, calls: readonly Call[], from: number, to: number): [Lane[], number] {
  const lanes: Lane[] = [];
  let top = 0;
  const push = (lane: Omit<Lane, "top">) => {
    lanes.push({ ...lane, top });
    top += lane.rows * ROW + GAP;
  };
  for (const { name, kind } of program.devices) {
    const own = calls.filter((call) => call.device === name);
    const { bars, rows } = packed(own);
    const busy = to > from ? busySeconds(own, from, to) / (to - from) : null;
    push({ device: name, title: name, kind: "calls", bars, rows, busy });
    if (kind !== "cpu") {
      const copies = own
        .filter((call) => call.transfer > 0)
        .map((call) => ({ ...call, start: call.launched - call.transfer, end: call.launched }));
      push({
        device: name,
        title: `${name} copies`,
        kind: "copies",
        bars: packed(copies).bars,
        rows: 1,
        busy: null,
      });
    }
  }
  return [lanes, top];
}

function describe(call: Call): string {
  const wait = Math.max(0, call.start - call.submitted - call.transfer);
  const predicted = call.predicted === null ? "not predicted" : `predicted ${time(call.predicted)}`;
  return `${call.name} #${call.number} on ${call.device}: ${time(call.seconds)}, ${predicted}, waited ${time(wait)}, copies ${time(call.transfer)}`;
}

/** Round times of the axis, at least 70 px apart. */
const ticks = (from: number, to: number, pixels: number): number[] => {
  const raw = (to - from) / Math.min(6, Math.max(1, pixels / 70));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
};

/** Gantt chart of real devices: calls by function, copies to a device in a row of their own. */
export function RuntimeGantt({
  program,
  calls,
  colors,
  selected,
  onSelect,
}: {
  program: Program;
  calls: readonly Call[];
  colors: ReadonlyMap<string, string>;
  selected: number | null;
  onSelect: (call: Call) => void;
}) {
  const [span, setSpan] = useState<Span>("All");
  const [box, { width }] = useElementSize<HTMLDivElement>();
  const last = calls.reduce((end, call) => Math.max(end, call.end), 0);
  const first = calls.reduce((start, call) => Math.min(start, call.submitted), last);
  const from = Math.max(first, last - SPANS[span]);
  const to = Math.max(last, from + 1e-6);
  const visible = useMemo(() => calls.filter((call) => call.end >= from).slice(-MOST_BARS), [calls, from]);
  const [lanes, height] = lanesOf(program, visible, from, to);
  const inner = Math.max(width - LABEL - RIGHT, 1);
  const x = (at: number) => LABEL + (Math.max(0, at - from) / (to - from)) * inner;
  const hidden = calls.filter((call) => call.end >= from).length - visible.length;
  const tag: Tag | null =
    hidden > 0 ? { kind: "truncated", visible: visible.length, of: visible.length + hidden } : null;
  return (
    <Panel
      title="Task graph"
      subtitle={program.ended ? "the whole run" : "following"}
      tag={tag}
      state={
        calls.length
          ? { kind: "ready" }
          : { kind: "empty", title: "No call has ended", hint: "Calls of auto and task functions appear here." }
      }
      table={() => ({
        name: `program-${program.run_id}`,
        columns: [
          { key: "number", label: "call", numeric: true, show: (v: Cell) => count(v as number) },
          { key: "function", label: "function" },
          { key: "device", label: "device" },
          { key: "start_s", label: "start", numeric: true, show: (v: Cell) => time(v as number) },
          { key: "run_s", label: "run", numeric: true, show: (v: Cell) => time(v as number) },
          { key: "predicted_s", label: "predicted", numeric: true, show: (v: Cell) => time(v as number) },
          { key: "transfer_s", label: "copies", numeric: true, show: (v: Cell) => time(v as number) },
        ],
        rows: calls.map((call): Cell[] => [
          call.number,
          call.name,
          call.device,
          call.start,
          call.seconds,
          call.predicted,
          call.transfer,
        ]),
      })}
      actions={
        <SegmentedControl
          label="Visible time"
          value={span}
          onChange={setSpan}
          choices={Object.keys(SPANS) as Span[]}
        />
      }
      note="Solid: a call, coloured by function. Hatched: copies of its inputs. Calls of the CPU that overlap are in rows of their own. A click shows a call."
      bodyClass="thin-scroll overflow-auto"
    >
      <div ref={box} className="min-w-0">
        <svg
          width={Math.max(width, 1)}
          height={height + AXIS}
          role="img"
          aria-label={`${count(visible.length)} calls on ${program.devices.length} devices`}
          className="block text-12"
        >
          <defs>
            <pattern id="copies" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" fill="var(--track)" />
              <rect width="2" height="6" fill="var(--accent)" />
            </pattern>
          </defs>
          {lanes.map((lane) => (
            <g key={lane.title} transform={`translate(0 ${lane.top})`}>
              <text x={0} y={15} fill="var(--muted)">
                {lane.title}
              </text>
              <rect x={LABEL} width={inner} height={lane.rows * ROW} fill="var(--track)" rx={4} />
              {lane.busy !== null ? (
                <text x={LABEL + inner + 8} y={15} fill="var(--text)">
                  {percent(lane.busy)}
                </text>
              ) : null}
              {lane.bars.map(({ call, row }) => {
                const [left, wide] = [x(call.start), Math.max(x(call.end) - x(call.start), 1)];
                const y = (lane.kind === "copies" ? 0 : row) * ROW + 1;
                return (
                  // biome-ignore lint/a11y/noStaticElementInteractions: the table view has every call
                  <g key={call.number} onClick={() => onSelect(call)} className="cursor-pointer">
                    <title>{lane.kind === "copies" ? `copies for ${describe(call)}` : describe(call)}</title>
                    <rect
                      x={left}
                      y={y}
                      width={wide}
                      height={ROW - 2}
                      rx={wide > 4 ? 2 : 0}
                      fill={lane.kind === "copies" ? "url(#copies)" : colors.get(call.name)}
                      stroke={call.number === selected ? "var(--text)" : "none"}
                      strokeWidth={2}
                    />
                    {lane.kind === "calls" && wide > call.name.length * 7 + 6 ? (
                      <text x={left + wide / 2} y={y + 14} textAnchor="middle" fill={ON_COLOR} pointerEvents="none">
                        {call.name}
                      </text>
                    ) : null}
                  </g>
                );
              })}
            </g>
          ))}
          {ticks(from, to, inner).map((at) => (
            <text key={at} x={x(at)} y={height + 14} textAnchor="middle" fill="var(--faint)">
              {time(at)}
            </text>
          ))}
        </svg>
      </div>
    </Panel>
  );
}
