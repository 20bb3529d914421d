/** Tabular data of a widget, the common source of its table view and its CSV. */
import type { Quantity } from "./format";

export type Cell = string | number | null;

export interface Column {
  key: string;
  label: string;
  /** Whether the column is aligned to the right. */
  numeric?: boolean;
  /** Quantity of a number, which gives its unit in the table. */
  unit?: Quantity;
  /** Format of a value in the table; the CSV has the raw value. */
  show?: (value: Cell) => string;
}

export interface TableData {
  name: string;
  columns: readonly Column[];
  rows: readonly Cell[][];
}

function field(cell: Cell): string {
  if (cell === null || (typeof cell === "number" && !Number.isFinite(cell))) return "";
  const text = String(cell);
  // A spreadsheet would run text with a leading = + - @ as a formula.
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function toCsv(table: TableData): string {
  const head = table.columns.map((column) => field(column.key)).join(",");
  return `${[head, ...table.rows.map((row) => row.map(field).join(","))].join("\r\n")}\r\n`;
}
