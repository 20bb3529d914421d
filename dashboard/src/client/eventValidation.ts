/** Validation of stream messages: the store relies on the fields that are checked here. */
import type { Hello, StreamEvent } from "./models";

type Loose = Record<string, unknown>;

const isObject = (value: unknown): value is Loose =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isFinite_ = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

function isUpdate(event: Loose): boolean {
  return (
    Array.isArray(event.comparison) &&
    event.comparison.every((row) => isObject(row) && typeof row.name === "string") &&
    Array.isArray(event.decisions) &&
    event.decisions.every((row) => isObject(row) && isFinite_(row.task_id) && typeof row.scheduler === "string") &&
    isFinite_(event.virtual_time) &&
    isFinite_(event.tasks_processed)
  );
}

export function parseEvent(value: unknown): StreamEvent | null {
  if (!isObject(value) || !Number.isSafeInteger(value.seq) || (value.seq as number) < 0) return null;
  if (!isFinite_(value.t) || !isFinite_(value.created_at) || typeof value.run_id !== "string") return null;
  switch (value.type) {
    case "simulation_update":
      return isUpdate(value) ? (value as unknown as StreamEvent) : null;
    case "notification":
    case "log":
      return typeof value.message === "string" && typeof value.level === "string"
        ? (value as unknown as StreamEvent)
        : null;
    default:
      return null;
  }
}

export function parseHello(value: unknown): Hello | null {
  if (!isObject(value) || value.type !== "hello" || !Number.isSafeInteger(value.seq)) return null;
  if (value.status !== null && !(isObject(value.status) && Array.isArray(value.status.comparison))) return null;
  return value as unknown as Hello;
}

/** Sequence number of a message, also of a malformed one, which would otherwise count as a gap. */
export function sequenceOf(value: unknown): number | null {
  return isObject(value) && Number.isSafeInteger(value.seq) ? (value.seq as number) : null;
}
