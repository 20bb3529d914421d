import { count, device as deviceName, percent, significant, time } from "../lib/format";
import { buffers } from "../store/liveStore";
import type { Block } from "./ganttModel";

interface TooltipProps {
  block: Block;
  scheduler: string;
  x: number;
  y: number;
  width: number;
}

/** What is known of the block under the pointer: all of it while the task is recent, its own span otherwise. */
export function GanttTooltip({ block, scheduler, x, y, width }: TooltipProps) {
  const task = buffers.tasks.get(block.task);
  const decision = task?.results.get(scheduler);
  const rows: [string, string][] = [];
  if (task) rows.push(["size N · intensity I", `${count(task.size)} · ${significant(task.intensity)}`]);
  if (decision?.cpu_time) rows.push(["CPU part", time(decision.cpu_time)]);
  if (decision?.gpu_time) {
    const share = decision.fraction !== null && decision.fraction < 1 ? ` · ${percent(decision.fraction)}` : "";
    rows.push([`${deviceName(decision.device)} part${share}`, time(decision.gpu_time)]);
  }
  if (decision) rows.push(["wait", time(Math.max(0, (decision.latency ?? 0) - (decision.time ?? 0)))]);
  if (!decision) rows.push([deviceName(block.device), time(block.end - block.start)]);
  const left = x + 232 > width ? x - 232 : x + 12;
  return (
    <div
      className="popover pointer-events-none absolute z-20 w-[220px] p-2.5"
      style={{ left: Math.max(0, left), top: y + 8 }}
    >
      <p className="mb-1 flex justify-between font-semibold">
        <span>Task {block.task}</span>
        <span>{decision ? time(decision.latency) : ""}</span>
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
