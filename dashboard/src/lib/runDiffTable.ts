import type { DiffRow } from "../client/models";
import { DIFF_METRICS } from "./runDiff";
import type { Cell, TableData } from "./tableData";

/** Table of all differences between two runs. */
export function diffTable(rows: readonly DiffRow[]): TableData {
  return {
    name: "diff",
    columns: [
      { key: "scheduler", label: "scheduler" },
      { key: "metric", label: "metric" },
      { key: "a", label: "A", numeric: true },
      { key: "b", label: "B", numeric: true },
      { key: "difference", label: "B − A", numeric: true },
      { key: "ci95", label: "± 95 %", numeric: true },
    ],
    rows: rows.flatMap((row) =>
      DIFF_METRICS.map(({ key }): Cell[] => {
        const { a, b, difference, ci95 } = row[key];
        return [row.name, key, a, b, difference, ci95];
      }),
    ),
  };
}
