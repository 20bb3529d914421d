import { useInfiniteQuery } from "@tanstack/react-query";
import { ChevronLeft, ChevronRight, GitCompareArrows } from "lucide-react";
import { useState } from "react";
import type { Run } from "../../client/models";
import { Link } from "../../components/Link";
import { IconButton } from "../../components/ui/Button";
import { SearchBox } from "../../components/ui/SearchBox";
import { Select } from "../../components/ui/Select";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { useElementSize } from "../../hooks/useElementSize";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { count, date, shortRunId, significant } from "../../lib/format";
import { usePollInterval } from "../../store/queryClient";
import { matches, runPages } from "../../store/runPages";
import { useStudio } from "../../store/studioStore";
import { setUi, useUi } from "../../store/uiStore";
import { useRunDetails } from "./historyQueries";
import { RunCard, RunRow } from "./RunRow";
import { pick } from "./runSelection";

const ROW = 32;
const STATES = [
  { value: "all", label: "All states" },
  { value: "running", label: "Live" },
  { value: "paused", label: "Paused" },
  { value: "stopped", label: "Ended" },
];
const HEADS = ["started", "scenario", "seed", "numbers", "tasks", "leader", "÷ bound", ""];

/** List of all runs, with selection of two for a comparison. */
export function RunList() {
  const poll = usePollInterval(10_000);
  const query = useInfiniteQuery({ ...runPages, refetchInterval: poll });
  const [text, setText] = useState("");
  const [status, setStatus] = useState("all");
  const [page, setPage] = useState(0);
  const deleting = useStudio((s) => s.deleting);
  const [box, size] = useElementSize<HTMLDivElement>();
  const narrow = useMediaQuery("(max-width: 767px)");
  const a = useUi((s) => s.a);
  const b = useUi((s) => s.b);
  const all = query.data?.pages.flatMap((one) => one.runs).filter((run) => !deleting.includes(run.run_id)) ?? [];
  const found = all.filter((run) => matches(run, text, status));
  const perPage = narrow ? 5 : Math.max(4, Math.floor((size.height - ROW) / ROW));
  const pages = Math.max(1, Math.ceil(found.length / perPage));
  const current = Math.min(page, pages - 1);
  const visible = found.slice(current * perPage, (current + 1) * perPage);
  const { details, pending } = useRunDetails(visible);
  const verdicts = new Map(details.map((run) => [run.run_id, run.verdict ?? null]));
  const more = query.hasNextPage;
  const next = () => {
    if (current < pages - 1) setPage(current + 1);
    else if (more) void query.fetchNextPage().then(() => setPage(current + 1));
  };
  const state: BodyState =
    query.data && all.length === 0 ? { kind: "empty" } : queryState(query, "Could not load the runs", "table");
  const nameOf = (id: string) => all.find((run) => run.run_id === id)?.name || shortRunId(id);
  const props = (run: Run) => {
    return {
      run,
      verdict: verdicts.get(run.run_id) ?? null,
      pending: pending && !verdicts.has(run.run_id),
      letter: run.run_id === a ? ("A" as const) : run.run_id === b ? ("B" as const) : null,
      onPick: () => setUi(pick({ a, b }, run.run_id)),
      onDeleted: () => {
        if (run.run_id === a || run.run_id === b) setUi(pick({ a, b }, run.run_id));
      },
    };
  };
  return (
    <Panel
      title="Runs"
      subtitle={a && b ? `A ${nameOf(a)}, B ${nameOf(b)}` : "pick two to compare"}
      state={state}
      table={() => ({
        name: "runs",
        columns: [
          { key: "run_id", label: "run" },
          { key: "name", label: "name" },
          { key: "tags", label: "tags" },
          { key: "created_at", label: "started", numeric: true, show: (v) => date(v as number) },
          { key: "scenario", label: "scenario" },
          { key: "load", label: "load", numeric: true, show: (v) => significant(v as number) },
          { key: "seed", label: "seed", numeric: true, show: String },
          { key: "source", label: "numbers" },
          { key: "tasks", label: "tasks", numeric: true, show: (v) => count(v as number) },
          { key: "status", label: "status" },
        ],
        rows: found.map((run) => [
          run.run_id,
          run.name,
          run.tags.join(" "),
          run.created_at,
          run.scenario,
          run.load,
          run.seed,
          run.source,
          run.tasks,
          run.status,
        ]),
      })}
      actions={
        <>
          <SearchBox
            label="Search runs"
            placeholder="Search runs"
            value={text}
            onChange={(value) => {
              setText(value);
              setPage(0);
            }}
            shortcut
            className="max-md:hidden md:w-44"
          />
          <Select label="Status" options={STATES} value={status} onChange={setStatus} className="max-sm:hidden" />
        </>
      }
      bodyClass="flex flex-col"
    >
      {narrow ? (
        <SearchBox label="Search runs" placeholder="Search runs" value={text} onChange={setText} className="mb-2" />
      ) : null}
      <div ref={box} className="thin-scroll min-h-0 flex-1 overflow-x-auto overflow-y-hidden">
        {visible.length === 0 ? (
          <p className="flex h-full min-h-24 items-center justify-center text-muted">No run matches.</p>
        ) : narrow ? (
          <ul>
            {visible.map((run) => (
              <RunCard key={run.run_id} {...props(run)} />
            ))}
          </ul>
        ) : (
          <table className="w-full border-collapse text-12">
            <caption className="sr-only">Runs, newest first</caption>
            <thead className="text-muted">
              <tr className="h-8">
                <th scope="col" className="w-8 font-normal">
                  <span className="sr-only">compare</span>
                </th>
                <th scope="col" className="text-left font-normal">
                  run
                </th>
                {HEADS.map((head) => (
                  <th
                    key={head}
                    scope="col"
                    className={`px-2 font-normal ${/seed|tasks|÷|^$/.test(head) ? "text-right" : "text-left"} ${/numbers|seed/.test(head) ? "max-[1439px]:hidden" : ""}`}
                  >
                    {head || <span className="sr-only">status</span>}
                  </th>
                ))}
                <th scope="col">
                  <span className="sr-only">actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {visible.map((run) => (
                <RunRow key={run.run_id} {...props(run)} />
              ))}
            </tbody>
          </table>
        )}
      </div>
      <div className="mt-2 flex items-center gap-1 text-faint">
        <span className="min-w-0 flex-1 truncate">
          {found.length
            ? `${count(current * perPage + 1)} to ${count(current * perPage + visible.length)} of ${count(found.length)}${more ? ", older ones not loaded yet" : ""}`
            : `none of ${count(all.length)}`}
        </span>
        {a && b ? (
          <Link
            to={{ view: "diff" }}
            className="mr-2 inline-flex h-10 items-center gap-2 rounded-control bg-accent px-3 font-medium text-12 text-on-accent hover:brightness-110 md:h-7"
          >
            <GitCompareArrows size={14} aria-hidden="true" />
            Compare A and B
          </Link>
        ) : null}
        <IconButton label="Newer runs" disabled={current === 0} onClick={() => setPage(current - 1)}>
          <ChevronLeft size={15} aria-hidden="true" />
        </IconButton>
        <IconButton
          label="Older runs"
          disabled={(current >= pages - 1 && !more) || query.isFetchingNextPage}
          onClick={next}
        >
          <ChevronRight size={15} aria-hidden="true" />
        </IconButton>
      </div>
    </Panel>
  );
}
