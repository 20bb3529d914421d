import type { ReactNode } from "react";
import { classNames } from "../components/ui/classNames";

export interface MatrixCell {
  /** Null for the empty diagonal. */
  content: ReactNode;
  /** Fill colour; without one the cell has an outline. */
  color?: string;
  ink?: string;
  title?: string;
  strong?: boolean;
}

interface MatrixProps {
  caption: string;
  columns: readonly { key: string; head: ReactNode; label: string }[];
  rows: readonly { key: string; head: ReactNode; cells: readonly MatrixCell[] }[];
  headWidth?: number;
}

/** Matrix of coloured cells as an HTML table, which screen readers can read. */
export function Matrix({ caption, columns, rows, headWidth = 96 }: MatrixProps) {
  return (
    <table className="h-full w-full table-fixed border-separate border-spacing-0.5 text-12">
      <caption className="sr-only">{caption}</caption>
      <colgroup>
        <col style={{ width: headWidth }} />
      </colgroup>
      <thead>
        <tr className="h-6">
          <td />
          {columns.map((column) => (
            <th
              key={column.key}
              scope="col"
              className="truncate text-center font-normal text-muted"
              title={column.label}
            >
              <span className="sr-only">{column.label}</span>
              <span aria-hidden="true" className="inline-flex justify-center">
                {column.head}
              </span>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key} className={rows.length > 7 ? "h-5" : "h-7"}>
            <th scope="row" className="truncate pr-1 text-left font-normal">
              {row.head}
            </th>
            {row.cells.map((cell, index) => (
              <td
                key={columns[index]?.key ?? index}
                title={cell.title}
                className={classNames(
                  "rounded-[4px] p-0 text-center leading-4",
                  cell.content === null && "bg-track text-faint",
                  cell.content !== null && !cell.color && "text-muted shadow-[inset_0_0_0_1px_var(--hair)]",
                  cell.strong && "font-semibold",
                )}
                style={cell.color ? { background: cell.color, color: cell.ink } : undefined}
              >
                {cell.content ?? "–"}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
