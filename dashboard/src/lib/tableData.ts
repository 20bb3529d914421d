/** A widget's data as a table: what "view as table" shows and what the CSV holds, from one source so that they agree. */
export type Cell = string | number | null;

export interface Column {
  key: string;
  label: string;
  /** Numbers stand at the right. */
  numeric?: boolean;
  /** How the table shows the raw value; the CSV always holds the raw value. */
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
  // A leading = + - @ in text would be run as a formula by a spreadsheet.
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function toCsv(table: TableData): string {
  const head = table.columns.map((column) => field(column.key)).join(",");
  return `${[head, ...table.rows.map((row) => row.map(field).join(","))].join("\r\n")}\r\n`;
}
