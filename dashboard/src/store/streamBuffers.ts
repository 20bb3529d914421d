/** Buffers of bounded size that the event stream fills. */
import type { LogLine, Notification } from "../client/models";
import { RingBuffer } from "../lib/ringBuffer";
import { RecentTasks } from "./recentTasks";
import { UtilizationHistory } from "./utilizationHistory";

export type LogEntry = LogLine | Notification;

export class StreamBuffers {
  readonly tasks = new RecentTasks();
  readonly utilization = new UtilizationHistory();
  readonly log = new RingBuffer<LogEntry>(500);
  readonly notifications = new RingBuffer<Notification>(200);

  clear(): void {
    this.tasks.clear();
    this.utilization.clear();
    this.log.clear();
    this.notifications.clear();
  }
}
