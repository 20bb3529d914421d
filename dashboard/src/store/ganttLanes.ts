/** Gantt lanes per device, from the blocks of the API. */
import type { Gantt } from "../client/models";
import { DeviceTimeline } from "../lib/deviceTimeline";

export interface Device {
  name: string;
  kind: string;
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
