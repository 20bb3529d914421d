/** Everything the stream fills, outside React: components read it when `rev` of the live store changes. */
import type { LogLine, Notification } from "../client/models";
import { RingBuffer } from "../lib/ringBuffer";
import { GanttLanes } from "./ganttLanes";
import { RecentTasks } from "./recentTasks";
import { UtilizationHistory } from "./utilizationHistory";

export type LogEntry = LogLine | Notification;

export class StreamBuffers {
  readonly tasks = new RecentTasks();
  readonly gantt = new GanttLanes();
  readonly pulse = new UtilizationHistory();
  readonly log = new RingBuffer<LogEntry>(500);
  readonly notifications = new RingBuffer<Notification>(200);

  clear(): void {
    this.tasks.clear();
    this.gantt.clear();
    this.pulse.clear();
    this.log.clear();
    this.notifications.clear();
  }
}
