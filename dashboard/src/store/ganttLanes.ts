/** Gantt lanes per scheduler and device, from the decisions of the stream. */
import type { Decision, Gantt } from "../client/models";
import { DeviceTimeline } from "../lib/deviceTimeline";

/** Blocks per lane: 19 minutes at seven tasks a second. Older blocks come from REST. */
const LIVE_BLOCKS = 8192;

export interface Device {
  name: string;
  kind: string;
}

/** CPU that shares a task with an accelerator: the last one before it in the platform's list (same node). */
function cpuBeside(devices: readonly Device[], accelerator: string): string | null {
  let cpu: string | null = null;
  for (const device of devices) {
    if (device.kind === "cpu") cpu = device.name;
    if (device.name === accelerator && cpu !== null) return cpu;
  }
  return cpu;
}

export class GanttLanes {
  private readonly books = new Map<string, Map<string, DeviceTimeline>>();
  private devices: readonly Device[] = [];

  setDevices(devices: readonly Device[]): void {
    if (devices.length && devices.map((d) => d.name).join() !== this.devices.map((d) => d.name).join())
      this.devices = devices;
  }

  ofScheduler(scheduler: string): ReadonlyMap<string, DeviceTimeline> {
    return this.books.get(scheduler) ?? new Map();
  }

  private lane(scheduler: string, device: string): DeviceTimeline {
    let book = this.books.get(scheduler);
    if (!book) {
      book = new Map();
      this.books.set(scheduler, book);
    }
    let lane = book.get(device);
    if (!lane) {
      lane = new DeviceTimeline(LIVE_BLOCKS);
      book.set(device, lane);
    }
    return lane;
  }

  add(decision: Decision): void {
    const { scheduler, device, compute_intensity: intensity, task_id } = decision;
    if (
      decision.accelerator_start !== null &&
      decision.accelerator_time !== null &&
      decision.accelerator_time > 0
    ) {
      this.lane(scheduler, device).push(
        decision.accelerator_start,
        decision.accelerator_start + decision.accelerator_time,
        intensity,
        task_id,
      );
    }
    if (decision.cpu_start !== null && decision.cpu_time !== null && decision.cpu_time > 0) {
      const isCpu = decision.accelerator_start === null;
      const cpu = isCpu ? device : cpuBeside(this.devices, device);
      if (cpu)
        this.lane(scheduler, cpu).push(
          decision.cpu_start,
          decision.cpu_start + decision.cpu_time,
          intensity,
          task_id,
        );
    }
  }

  clear(): void {
    this.books.clear();
  }
}

/** Lanes from the columns of GET /api/runs/{id}/gantt, sorted by start. */
export function lanesFromColumns(columns: Gantt): Map<string, DeviceTimeline> {
  const indices = new Map<string, number[]>();
  columns.device.forEach((device, i) => {
    const list = indices.get(device);
    if (list) list.push(i);
    else indices.set(device, [i]);
  });
  const lanes = new Map<string, DeviceTimeline>();
  for (const [device, list] of indices) {
    list.sort((a, b) => (columns.start[a] as number) - (columns.start[b] as number));
    const lane = new DeviceTimeline(list.length);
    for (const i of list) {
      lane.push(
        columns.start[i] as number,
        columns.end[i] as number,
        columns.intensity[i] as number,
        columns.task_id[i] as number,
      );
    }
    lanes.set(device, lane);
  }
  return lanes;
}
