import { useMemo } from "react";
import { classNames } from "../../components/ui/classNames";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { useElementSize } from "../../hooks/useElementSize";
import { count, percent, tick, time } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { useStream } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useSelectedScheduler } from "./selectedScheduler";

const BINS = 16;

function binned(fractions: readonly number[]): number[] {
  const bins = new Array<number>(BINS).fill(0);
  for (const f of fractions) {
    const i = Math.min(BINS - 1, Math.floor(f * BINS));
    bins[i] = (bins[i] ?? 0) + 1;
  }
  return bins;
}

function Bar({ parts }: { parts: readonly { share: number; className: string }[] }) {
  return (
    <div className="marks flex h-2.5 gap-0.5 overflow-hidden rounded-full" aria-hidden="true">
      {parts.map((part, i) =>
        part.share > 0 ? <i key={i} className={part.className} style={{ width: `${part.share * 100}%` }} /> : null,
      )}
    </div>
  );
}

/** Histogram of GPU shares on a square-root axis, with the oracle's counts as a dotted outline. */
function Shares({ mine, oracle, color }: { mine: number[]; oracle: number[] | null; color: string }) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const top = Math.sqrt(Math.max(1, ...mine, ...(oracle ?? [])));
  const [left, bottom] = [36, 20];
  const y = (n: number) => 4 + (1 - Math.sqrt(n) / top) * (height - bottom - 4);
  const x = (i: number) => left + (i / BINS) * (width - left);
  const outline = oracle?.map((n, i) => `${i ? "L" : "M"}${x(i)},${y(n)}H${x(i + 1)}`).join("");
  return (
    <div ref={box} className="min-h-24 flex-1">
      {width > 0 && height > 0 ? (
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`Tasks by GPU share: ${mine.join(", ")}`}
          className="marks block"
        >
          {[0.25, 1].map((share) => {
            const n = Math.round((top * share) ** 2);
            return (
              <g key={share}>
                <line x1={left} x2={width} y1={y(n)} y2={y(n)} stroke="var(--hair)" />
                <text x={left - 6} y={y(n) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                  {count(n)}
                </text>
              </g>
            );
          })}
          {mine.map((n, i) => (
            <rect
              key={i}
              x={x(i) + 1}
              width={Math.max(1, x(i + 1) - x(i) - 2)}
              y={y(n)}
              height={Math.max(0, height - bottom - y(n))}
              fill={color}
              opacity={0.7}
            />
          ))}
          {outline ? <path d={outline} fill="none" stroke="var(--text)" strokeDasharray="2 2" /> : null}
          <line x1={left} x2={width} y1={height - bottom} y2={height - bottom} stroke="var(--baseline)" />
          {[0, 0.5, 1].map((share) => (
            <text
              key={share}
              x={x(share * BINS)}
              y={height - 5}
              textAnchor={share === 1 ? "end" : share === 0 ? "start" : "middle"}
              fontSize="12"
              fill="var(--faint)"
            >
              {tick(share)}
            </text>
          ))}
        </svg>
      ) : null}
    </div>
  );
}

/** Division of work between CPU and GPUs: tasks, busy seconds and shares. */
export function GpuCpuSplit() {
  const scheduler = useSelectedScheduler();
  const stream = useStream();
  const oracle = useSchedulerStyles().find((one) => one.reference);
  const data = useMemo(() => {
    const own: number[] = [];
    const theirs: number[] = [];
    let [cpu, gpu] = [0, 0];
    for (const task of stream.tasks.list()) {
      const mine = task.results.get(scheduler.name);
      if (mine?.fraction != null) {
        own.push(mine.fraction);
        cpu += mine.cpu_time ?? 0;
        gpu += mine.accelerator_time ?? 0;
      }
      const reference = task.results.get(REFERENCE);
      if (reference?.fraction != null) theirs.push(reference.fraction);
    }
    return { own, theirs, cpu, gpu };
  }, [stream, scheduler.name]);
  const n = data.own.length;
  const whole = { cpu: data.own.filter((f) => f === 0).length, gpu: data.own.filter((f) => f === 1).length };
  const busy = data.cpu + data.gpu;
  return (
    <Panel
      title="GPU / CPU split"
      subtitle={`newest ${count(n)} tasks`}
      state={useLiveBody({ have: n, need: 20 })}
      tag={useLiveTag()}
      table={() => ({
        name: `split-${scheduler.name}`,
        columns: [
          { key: "gpu_share_from", label: "GPU share from", numeric: true },
          { key: "tasks", label: "tasks", numeric: true },
        ],
        rows: binned(data.own).map((value, i) => [i / BINS, value]),
      })}
      bodyClass="flex flex-col gap-3"
      note={
        oracle && !scheduler.reference
          ? "Bars: this scheduler, square-root axis. Dotted: the oracle."
          : "Square-root axis."
      }
    >
      <div>
        <p className="mb-1 flex justify-between gap-2">
          <span className="font-medium">Tasks</span>
          <span className="truncate text-muted">
            CPU {percent(whole.cpu / n)} · split {percent((n - whole.cpu - whole.gpu) / n)} · GPU{" "}
            {percent(whole.gpu / n)}
          </span>
        </p>
        <Bar
          parts={[
            { share: whole.cpu / n, className: classNames("bg-cpu") },
            { share: (n - whole.cpu - whole.gpu) / n, className: "bg-control" },
            { share: whole.gpu / n, className: "bg-gpu" },
          ]}
        />
      </div>
      <div>
        <p className="mb-1 flex justify-between gap-2">
          <span className="font-medium">Busy seconds</span>
          <span className="text-muted">
            CPU {time(data.cpu)} · GPUs {time(data.gpu)}
          </span>
        </p>
        <Bar
          parts={[
            { share: busy ? data.cpu / busy : 0, className: "bg-cpu" },
            { share: busy ? data.gpu / busy : 0, className: "bg-gpu" },
          ]}
        />
      </div>
      <p className="text-muted">Tasks by GPU share</p>
      <Shares
        mine={binned(data.own)}
        oracle={scheduler.reference || !oracle ? null : binned(data.theirs)}
        color={scheduler.color}
      />
    </Panel>
  );
}
