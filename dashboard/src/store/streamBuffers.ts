/** Everything the stream fills, outside React: components read it when `rev` of the live store changes. */
import type { LogLine, Notification } from "../client/models";
import { Ring } from "../lib/ringBuffer";
import { GanttBook } from "./ganttLanes";
import { TaskWindow } from "./recentTasks";
import { PulseBuffer } from "./utilizationHistory";

export type LogEntry = LogLine | Notification;

export class LiveBuffers {
  readonly tasks = new TaskWindow();
  readonly gantt = new GanttBook();
  readonly pulse = new PulseBuffer();
  readonly log = new Ring<LogEntry>(500);
  readonly notifications = new Ring<Notification>(200);

  clear(): void {
    this.tasks.clear();
    this.gantt.clear();
    this.pulse.clear();
    this.log.clear();
    this.notifications.clear();
  }
}
