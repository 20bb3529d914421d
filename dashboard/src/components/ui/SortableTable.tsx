import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { NOTHING, quantity, significant } from "../../lib/format";
import type { Cell, Column, TableData } from "../../lib/tableData";
import { classNames } from "./classNames";

interface Sort {
  key: string;
  down: boolean;
}

interface TableProps {
  data: TableData;
  initial?: Sort;
  /** Most rows on the screen; the CSV has all. */
  limit?: number;
  caption?: string;
  /** Custom rendering of a cell; undefined falls back to the column's format. */
  render?: (column: Column, value: Cell, row: readonly Cell[]) => ReactNode;
  onRow?: (row: readonly Cell[]) => void;
}

const compare = (a: Cell, b: Cell): number => {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
};

export function formatCell(column: Column, value: Cell): string {
  if (value === null) return NOTHING;
  if (column.show) return column.show(value);
  if (typeof value !== "number") return value;
  return column.unit ? quantity(value, column.unit) : significant(value);
}

/** Alignment of a column: numbers right, text left, with padding after a number. */
function aligned(columns: readonly Column[], at: number): string {
  if (columns[at]?.numeric) return "text-right";
  return columns[at - 1]?.numeric ? "text-left pl-4!" : "text-left";
}

/** Table that sorts by a click on a column head; a third click restores the first order. */
export function Table({ data, initial, limit = 200, caption, render, onRow }: TableProps) {
  const [sort, setSort] = useState<Sort | null>(initial ?? null);
  const rows = useMemo(() => {
    const index = data.columns.findIndex((column) => column.key === sort?.key);
    if (!sort || index < 0) return data.rows;
    // Missing values sort last in both directions.
    return [...data.rows].sort((a, b) => {
      const [x, y] = [a[index] ?? null, b[index] ?? null];
      return x === null || y === null ? compare(x, y) : compare(x, y) * (sort.down ? -1 : 1);
    });
  }, [data, sort]);
  return (
    <table className="w-full border-collapse text-12">
      <caption className="sr-only">{caption ?? data.name}</caption>
      <thead>
        <tr>
          {data.columns.map((column, at) => {
            const active = sort?.key === column.key;
            const Arrow = sort?.down ? ArrowDown : ArrowUp;
            return (
              <th
                key={column.key}
                scope="col"
                aria-sort={active ? (sort.down ? "descending" : "ascending") : "none"}
                className={classNames("sticky top-0 z-10 bg-panel font-normal", aligned(data.columns, at))}
              >
                <button
                  type="button"
                  onClick={() => {
                    const first = Boolean(column.numeric);
                    if (!active) setSort({ key: column.key, down: first });
                    else setSort(sort.down === first ? { key: column.key, down: !first } : (initial ?? null));
                  }}
                  className={classNames(
                    "inline-flex h-8 items-center gap-1 whitespace-nowrap px-1 hover:text-ink focus-visible:outline-offset-[-2px]",
                    active ? "text-ink" : "text-muted",
                  )}
                >
                  {column.label}
                  {active ? <Arrow size={12} aria-hidden="true" /> : null}
                </button>
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, limit).map((row, index) => (
          <tr
            key={index}
            className={classNames("h-8 border-hair border-t", onRow && "cursor-pointer hover:bg-raised")}
            onClick={onRow ? () => onRow(row) : undefined}
          >
            {data.columns.map((column, at) => (
              <td key={column.key} className={classNames("whitespace-nowrap px-1", aligned(data.columns, at))}>
                {render?.(column, row[at] ?? null, row) ?? formatCell(column, row[at] ?? null)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
