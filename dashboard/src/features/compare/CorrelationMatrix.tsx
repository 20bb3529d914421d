import { useMemo } from "react";
import { Matrix, type MatrixCell } from "../../charts/MatrixTable";
import type { Decision } from "../../client/models";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { inkOn } from "../../lib/color";
import { correlationColor } from "../../lib/colorScales";
import { count, isNumber, significant } from "../../lib/format";
import { pearson } from "../../lib/statistics";
import type { Cell, TableData } from "../../lib/tableData";
import { useFocus } from "../../store/selectors";
import { useTheme } from "../../store/uiStore";
import { useTasksInRange } from "./useTasksInRange";

const FIELDS: readonly { key: string; label: string; short: string; value: (d: Decision) => number | null }[] = [
  { key: "size", label: "size", short: "N", value: (d) => d.size },
  { key: "intensity", label: "intensity", short: "I", value: (d) => d.compute_intensity },
  { key: "memory", label: "memory", short: "M", value: (d) => d.memory_required },
  { key: "gpu_share", label: "GPU share", short: "f", value: (d) => d.fraction },
  { key: "time", label: "time", short: "t", value: (d) => d.time },
  { key: "energy", label: "energy", short: "E", value: (d) => d.energy },
  { key: "cost", label: "cost", short: "$", value: (d) => d.cost },
];
const ENOUGH = 30;

/** Correlation with a fixed number of decimals. */
const fixed = (value: number, places: number) =>
  value
    .toFixed(places)
    .replace(/^-(?=0\.0+$)/, "")
    .replace("-", "−");

function useCorrelations(name: string | null): { n: number; values: number[][] } {
  const tasks = useTasksInRange();
  return useMemo(() => {
    const columns = FIELDS.map(() => [] as number[]);
    for (const task of tasks) {
      const decision = name ? task.results.get(name) : undefined;
      if (!decision) continue;
      const values = FIELDS.map((field) => field.value(decision));
      // Only tasks with all values count, so that every cell has the same n.
      if (!values.every(isNumber)) continue;
      for (const [i, value] of values.entries()) columns[i]?.push(value);
    }
    const values = columns.map((a, i) => columns.map((b, j) => (i === j ? 1 : pearson(a, b))));
    return { n: columns[0]?.length ?? 0, values };
  }, [tasks, name]);
}

function Ramp() {
  const theme = useTheme();
  return (
    <span className="flex items-center gap-2 text-faint">
      −1
      <span className="flex h-2 overflow-hidden rounded-[2px]">
        {[-1, -0.67, -0.33, 0, 0.33, 0.67, 1].map((value) => (
          <i key={value} className="w-2.5 md:w-3" style={{ background: correlationColor(value, theme) }} />
        ))}
      </span>
      +1
    </span>
  );
}

/** Correlations of task properties and outcomes for the scheduler in focus. */
export function CorrelationMatrix() {
  const theme = useTheme();
  const narrow = useMediaQuery("(max-width: 767px)");
  const focus = useFocus();
  const { n, values } = useCorrelations(focus?.name ?? null);
  const state = useLiveBody({ shape: "matrix", have: n, need: ENOUGH });
  const rows = FIELDS.map((field, i) => ({
    key: field.key,
    head: field.label,
    cells: FIELDS.map<MatrixCell>((other, j) => {
      const value = values[i]?.[j] ?? Number.NaN;
      if (i === j) return { content: <span className="text-faint">1</span> };
      if (!isNumber(value)) return { content: "–", title: `${field.label} or ${other.label} does not vary` };
      const color = correlationColor(value, theme);
      return {
        content: (
          <span className="max-md:tracking-tighter">
            {narrow ? fixed(value, 2).replace("0.", ".") : fixed(value, 3)}
          </span>
        ),
        color,
        ink: inkOn(color),
        title: `${field.label} and ${other.label}: ${significant(value)}`,
      };
    }),
  }));
  const table = (): TableData => ({
    name: "correlation",
    columns: [{ key: "field", label: "field" }, ...FIELDS.map(({ key, label }) => ({ key, label, numeric: true }))],
    rows: FIELDS.map<Cell[]>((field, i) => [field.key, ...(values[i] ?? []).map((v) => (isNumber(v) ? v : null))]),
  });
  return (
    <Panel
      title="Correlation"
      subtitle={`Pearson, ${focus?.label ?? ""}, n = ${count(n)}`}
      state={state}
      tag={useLiveTag()}
      actions={<Ramp />}
      table={table}
    >
      <Matrix
        caption={`Pearson correlations of ${n} tasks`}
        columns={FIELDS.map((field) => ({
          key: field.key,
          head: narrow ? field.short : field.label,
          label: field.label,
        }))}
        rows={rows}
        headWidth={narrow ? 68 : 72}
      />
    </Panel>
  );
}
