import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Matrix, type MatrixCell } from "../../charts/MatrixTable";
import { api } from "../../client/api";
import type { Comparative } from "../../client/models";
import { SchedulerGlyph, SchedulerName } from "../../components/ui/SchedulerGlyph";
import { Panel } from "../../components/widget/Panel";
import { type BodyState, useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { useElementSize } from "../../hooks/useElementSize";
import { mix } from "../../lib/color";
import { TOKENS } from "../../lib/designTokens";
import { count, significant, tick } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { holm, signTest } from "../../lib/statistics";
import type { Cell, TableData } from "../../lib/tableData";
import { useLive } from "../../store/liveStore";
import { usePollInterval } from "../../store/queryClient";
import { useVisibleStyles } from "../../store/selectors";
import { useTheme } from "../../store/uiStore";

const WINDOW = 1000;
const ENOUGH = 30;
const LEVEL = 0.05;

interface Duel {
  row: SchedulerStyle;
  column: SchedulerStyle;
  wins: number;
  losses: number;
  /** Holm-adjusted p of the sign test. */
  p: number;
}

/** Wins and losses of every pair in both directions, with p values corrected over all pairs. */
export function duelsOf(styles: readonly SchedulerStyle[], data: Comparative): Map<string, Duel> {
  const pairs: Duel[] = [];
  styles.forEach((row, i) => {
    for (const column of styles.slice(i + 1)) {
      const wins = data.wins[row.name]?.[column.name] ?? 0;
      const losses = data.wins[column.name]?.[row.name] ?? 0;
      pairs.push({ row, column, wins, losses, p: signTest(wins, losses) });
    }
  });
  const adjusted = holm(pairs.map((pair) => pair.p));
  const duels = new Map<string, Duel>();
  pairs.forEach((pair, i) => {
    const p = adjusted[i] ?? 1;
    duels.set(`${pair.row.name}|${pair.column.name}`, { ...pair, p });
    duels.set(`${pair.column.name}|${pair.row.name}`, {
      row: pair.column,
      column: pair.row,
      wins: pair.losses,
      losses: pair.wins,
      p,
    });
  });
  return duels;
}

/** Matrix of how often the row's scheduler was faster than the column's on the same task. */
export function WinLossMatrix() {
  const theme = useTheme();
  const [box, { width }] = useElementSize<HTMLDivElement>();
  const styles = useVisibleStyles();
  const runId = useLive((s) => s.runId);
  const query = useQuery({
    queryKey: ["comparative", runId, WINDOW],
    queryFn: ({ signal }) => api.comparative(WINDOW, runId, { signal }),
    enabled: runId !== null,
    refetchInterval: usePollInterval(5000),
  });
  const { data } = query;
  const live = useLiveBody({ shape: "matrix", have: data?.tasks, need: data ? ENOUGH : 0, what: "paired tasks" });
  const single: BodyState = {
    kind: "empty",
    title: "One visible scheduler",
    hint: "Switch on another one in the legend to compare.",
  };
  const state: BodyState =
    live.kind !== "ready"
      ? live
      : styles.length < 2
        ? single
        : queryState(query, "Could not load wins and losses", "matrix");
  const duels = useMemo(() => (data ? duelsOf(styles, data) : new Map<string, Duel>()), [styles, data]);

  // Two lines per cell need 48 px, and not more than six rows; elsewhere n is in the tooltip only.
  const compact = styles.length > 6 || width / (styles.length + 2) < 48;
  const rows = styles.map((row) => ({
    key: row.name,
    head: <SchedulerName style={row} />,
    cells: styles.map<MatrixCell>((column) => {
      const duel = duels.get(`${row.name}|${column.name}`);
      if (!duel) return { content: null };
      const n = duel.wins + duel.losses;
      if (n === 0) return { content: "–", title: "no task on which they differ" };
      const share = duel.wins / n;
      const clear = duel.p < LEVEL;
      const { panel, accent } = TOKENS[theme];
      return {
        content: (
          <span className={compact ? "relative block tracking-tighter" : "relative block"}>
            {compact ? tick(Math.round(share * 1000) / 10, 2) : significant(share * 100)}
            {clear ? (
              <i aria-hidden="true" className="absolute -top-0.5 right-[12%] size-1 rounded-full bg-current" />
            ) : null}
            {compact ? null : (
              <>
                <br />
                <span className={share > 0.5 ? "font-normal opacity-80" : "text-faint"}>
                  {clear ? count(n) : "n.s."}
                </span>
              </>
            )}
          </span>
        ),
        ...(share > 0.5
          ? { color: mix(panel, accent, 0.1 + 0.5 * (share - 0.5)), ink: TOKENS[theme].text, strong: true }
          : {}),
        title: `${row.label} beat ${column.label} on ${count(duel.wins)} of ${count(n)} tasks, p ${duel.p < 0.001 ? "< 0.001" : significant(duel.p, 2)}`,
      };
    }),
  }));
  const table = (): TableData => ({
    name: "win-loss",
    columns: [
      { key: "row", label: "row" },
      { key: "column", label: "column" },
      { key: "wins", label: "wins", numeric: true, show: (v) => count(v as number) },
      { key: "losses", label: "losses", numeric: true, show: (v) => count(v as number) },
      { key: "p_holm", label: "p (Holm)", numeric: true },
    ],
    rows: [...duels.values()].map<Cell[]>((d) => [d.row.name, d.column.name, d.wins, d.losses, d.p]),
  });
  return (
    <Panel
      title="Win / loss"
      subtitle="row beats column by latency, % of tasks"
      state={state}
      tag={useLiveTag()}
      table={table}
      note={`Newest ${count(data?.tasks)} tasks; ${compact ? "ties left out" : "second line n without ties"}. Dot: sign test, Holm, p < 0.05.`}
    >
      <div ref={box} className="thin-scroll h-full overflow-auto">
        <Matrix
          headWidth={compact ? 106 : 108}
          caption="Share of tasks on which the row was faster than the column"
          columns={styles.map((style) => ({
            key: style.name,
            head: <SchedulerGlyph style={style} size={14} />,
            label: style.label,
          }))}
          rows={rows}
        />
      </div>
    </Panel>
  );
}
