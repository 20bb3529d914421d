/** Mapping of a table's columns to the values of a task, and guesses from the names of columns. */

export interface ValueSource {
  column?: string;
  minus?: string;
  value?: number;
  factor?: number;
}

/** Sources by value; `seconds` is the run time, from which the size follows. */
export type Mapping = Partial<Record<ValueName, ValueSource>>;
export type ValueName = "size" | "seconds" | "compute_intensity" | "memory_required" | "arrival_time";

export const VALUES: readonly { name: ValueName; label: string; unit: string; fixed?: number }[] = [
  { name: "size", label: "size", unit: "of the task" },
  { name: "seconds", label: "run time", unit: "s, instead of a size" },
  { name: "memory_required", label: "memory", unit: "MB", fixed: 100 },
  { name: "arrival_time", label: "arrival", unit: "s or a date" },
  { name: "compute_intensity", label: "intensity", unit: "0 to 1", fixed: 0.5 },
];

const find = (columns: readonly string[], pattern: RegExp): string | undefined =>
  columns.find((column) => pattern.test(column));

/** Best guess for the columns of a table. */
export function guessMapping(columns: readonly string[]): Mapping {
  const arrival = find(columns, /arriv|submit|creat|queued/i) ?? find(columns, /start|begin|time/i);
  const duration = find(columns, /duration|run_?time|seconds|elapsed/i);
  const end = find(columns, /end|finish|complet|delet/i);
  const begin = find(columns, /start|begin|schedul/i);
  const size = find(columns, /^size$|work|flop|tokens/i);
  const memory = find(columns, /mem|mb$|mib$/i);
  const intensity = find(columns, /intens/i);
  return {
    ...(duration
      ? { seconds: { column: duration } }
      : size
        ? { size: { column: size } }
        : end && begin
          ? { seconds: { column: end, minus: begin } }
          : {}),
    ...(arrival ? { arrival_time: { column: arrival } } : {}),
    ...(memory ? { memory_required: { column: memory } } : {}),
    ...(intensity ? { compute_intensity: { column: intensity } } : {}),
  };
}

/** Whether the mapping has everything that the server needs to read the table. */
export const isComplete = (mapping: Mapping): boolean =>
  Boolean(mapping.arrival_time?.column && (mapping.size?.column || mapping.seconds?.column));

const TYPES: Record<string, string> = {
  csv: "text/csv",
  tsv: "text/csv",
  parquet: "application/vnd.apache.parquet",
  json: "application/json",
};

/** Content type of a trace by the ending of its name; text without a known ending may be SWF. */
export const contentType = (name: string): string =>
  TYPES[name.toLowerCase().split(".").at(-1) ?? ""] ?? "text/plain";

/** Name of a stored trace, from the name of a file. */
export const traceName = (file: string): string =>
  file
    .replace(/\.[^.]*$/, "")
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, 60) || "trace";
