import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api } from "../../client/api";
import { Panel } from "../../components/widget/Panel";
import { queryState } from "../../components/widget/queryState";
import { count, date, memory, significant } from "../../lib/format";
import { usePollInterval } from "../../store/queryClient";
import { runPages } from "../../store/runPages";
import { navigate } from "../../store/uiStore";

const BARS = 16;

/** Display names of database tables; other tables keep their own name. */
const WORDS: Record<string, string> = {
  runs: "Runs",
  tasks: "Tasks",
  scheduler_results: "Scheduler results",
  training_data: "Training rows",
  model_versions: "Model versions",
  events: "Events kept",
  idempotency_keys: "Request keys",
};
const ORDER = Object.keys(WORDS);

function Fact({ label, aside, value }: { label: string; aside?: string; value: string }) {
  return (
    <div className="flex min-h-7 items-center gap-3 border-hair border-t first:border-t-0">
      <dt className="min-w-0 flex-1 truncate text-muted">{label}</dt>
      <dd className="order-last whitespace-nowrap text-right font-semibold">{value}</dd>
      {aside ? <dd className="truncate text-right text-faint">{aside}</dd> : null}
    </div>
  );
}

function TasksPerRun() {
  const pages = useInfiniteQuery(runPages);
  const runs = (pages.data?.pages[0]?.runs ?? []).slice(0, BARS).reverse();
  if (runs.length < 2) return null;
  const top = Math.max(1, ...runs.map((run) => run.tasks));
  return (
    <div className="mt-3 flex min-h-24 flex-1 flex-col">
      <p className="mb-1 flex justify-between">
        <span className="text-muted">Tasks per run</span>
        <span className="text-faint">highest {count(top)}</span>
      </p>
      <div className="marks flex items-end gap-1 max-md:h-20 md:min-h-0 md:flex-1 border-line border-b">
        {runs.map((run) => (
          <button
            key={run.run_id}
            type="button"
            title={`${run.scenario}, ${date(run.created_at)}: ${count(run.tasks)} tasks`}
            aria-label={`Run of ${date(run.created_at)}, ${count(run.tasks)} tasks`}
            onClick={() => navigate({ view: "run", id: run.run_id })}
            className="group flex h-full max-w-10 flex-1 items-end"
          >
            <span
              className="w-full rounded-t-[2px] bg-(--bar) group-last:bg-accent group-hover:bg-accent"
              style={{ height: `${Math.max(2, (100 * run.tasks) / top)}%` }}
            />
          </button>
        ))}
      </div>
      <p className="mt-1 flex justify-between text-faint">
        <span>{date(runs[0]?.created_at)}</span>
        <span>{date(runs.at(-1)?.created_at)}</span>
      </p>
    </div>
  );
}

/** Row counts and size of the database. */
export function DataCollection() {
  const poll = usePollInterval(10_000);
  const query = useQuery({
    queryKey: ["statistics"],
    queryFn: ({ signal }) => api.statistics({ signal }),
    refetchInterval: poll,
  });
  const data = query.data;
  const rows = Object.entries(data?.rows ?? {}).sort(([a], [b]) => {
    const [i, j] = [ORDER.indexOf(a), ORDER.indexOf(b)];
    return (i < 0 ? ORDER.length : i) - (j < 0 ? ORDER.length : j) || a.localeCompare(b);
  });
  const perTask = (table: string, n: number) =>
    table === "scheduler_results" && data?.rows.tasks
      ? `${significant(n / data.rows.tasks, 2)} per task`
      : undefined;
  return (
    <Panel
      title="Data collection"
      subtitle="rows in the database"
      state={queryState(query, "Could not load the statistics", "table")}
      table={() => ({
        name: "statistics",
        columns: [
          { key: "table", label: "table" },
          { key: "rows", label: "rows", numeric: true, show: (v) => count(v as number) },
        ],
        rows: rows.map(([table, n]) => [table, n]),
      })}
      bodyClass="flex flex-col"
    >
      <dl>
        {rows.map(([table, n]) => (
          <Fact key={table} label={WORDS[table] ?? table} aside={perTask(table, n)} value={count(n)} />
        ))}
        <Fact
          label="Database"
          aside={
            data?.database === "sqlite" ? "SQLite" : data?.database === "postgresql" ? "PostgreSQL" : data?.database
          }
          value={data?.size_bytes == null ? "–" : memory(data.size_bytes / 1e6)}
        />
        <Fact label="First record" value={date(data?.first_recorded_at)} />
        <Fact label="Last record" value={date(data?.last_recorded_at)} />
      </dl>
      <TasksPerRun />
    </Panel>
  );
}
