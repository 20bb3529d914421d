import { ZoomIn, ZoomOut } from "lucide-react";
import { type ReactNode, useCallback } from "react";
import { GanttChart, type GanttContent } from "../charts/GanttChart";
import { GanttOverview } from "../charts/GanttOverview";
import type { Block, BlockDetails, GanttWindow, LaneOfKind } from "../charts/ganttModel";
import { count, device as deviceName, percent, significant, time } from "../lib/format";
import { useStream } from "../store/liveStore";
import { setUi, useUi } from "../store/uiStore";
import { IconButton } from "./ui/Button";

interface GanttViewProps extends GanttContent {
  /** Lanes of the overview; those of the chart by default. */
  overview?: readonly LaneOfKind[];
  /** First and last second that the overview covers. */
  first: number;
  last: number;
  /** The schedule of another scheduler, below the first one. */
  second?: { lanes: readonly LaneOfKind[]; scheduler: string; head: ReactNode } | null;
}

/** Describes a block: with all parts of its task while the task is recent, otherwise with its own span. */
function useBlockDetails(scheduler: string): (block: Block) => BlockDetails {
  const { tasks } = useStream();
  return useCallback(
    (block) => {
      const task = tasks.get(block.task);
      const decision = task?.results.get(scheduler);
      const rows: [string, string][] = [];
      if (task) rows.push(["size N · intensity I", `${count(task.size)} · ${significant(task.compute_intensity)}`]);
      if (decision?.cpu_time) rows.push(["CPU part", time(decision.cpu_time)]);
      if (decision?.accelerator_time) {
        const split = decision.fraction !== null && decision.fraction < 1;
        const share = split ? ` · ${percent(decision.fraction)}` : "";
        rows.push([`${deviceName(decision.device)} part${share}`, time(decision.accelerator_time)]);
      }
      if (decision) rows.push(["wait", time(Math.max(0, decision.wait ?? 0))]);
      else rows.push([deviceName(block.device), time(block.end - block.start)]);
      return { title: `Task ${block.task}`, latency: decision ? time(decision.latency) : "", rows };
    },
    [tasks, scheduler],
  );
}

/** One schedule; a click on a block opens its task. */
function Schedule(props: GanttContent & { focus?: string }) {
  const selected = useUi((s) => s.task);
  const describe = useBlockDetails(props.scheduler);
  const { focus } = props;
  return (
    <GanttChart
      {...props}
      selected={selected}
      describe={describe}
      onSelect={(task) => setUi(focus ? { task, focus } : { task })}
    />
  );
}

/** Gantt charts of one or two schedulers on one time axis, with the overview of the first below. */
export function GanttView({ overview, first, last, second, ...content }: GanttViewProps) {
  const { lanes, window, now, slow } = content;
  const short = last < 10;
  return (
    <>
      <Schedule {...content} />
      {second ? (
        <>
          {second.head}
          <Schedule
            lanes={second.lanes}
            scheduler={second.scheduler}
            focus={second.scheduler}
            window={window}
            now={now}
            bound={null}
            makespan={null}
            slow={slow}
          />
        </>
      ) : null}
      <div className="mt-2 flex items-center">
        <span className="w-12 shrink-0 text-faint leading-4 md:w-14">
          CPU
          <br />
          GPU
        </span>
        <GanttOverview lanes={overview ?? lanes} from={first} to={last} window={window} />
        <span className="ml-3 w-12 shrink-0 text-right text-faint leading-4 md:ml-6 md:w-[72px]">
          {short ? time(first) : count(first)} to
          <br />
          {short ? time(last) : `${count(last)} s`}
        </span>
      </div>
    </>
  );
}

export function GanttZoomButtons({ window }: { window: GanttWindow }) {
  return (
    <>
      <IconButton label="Zoom out" onClick={() => window.zoom(1 / 1.6)} className="max-md:hidden">
        <ZoomOut size={15} aria-hidden="true" />
      </IconButton>
      <IconButton label="Zoom in" onClick={() => window.zoom(1.6)} className="max-md:hidden">
        <ZoomIn size={15} aria-hidden="true" />
      </IconButton>
    </>
  );
}
