import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../client/api";
import { Button } from "../../components/ui/Button";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { SearchBox } from "../../components/ui/SearchBox";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, date, runName, shortRunId, significant } from "../../lib/format";
import { matches, runPages } from "../../store/runPages";
import { useWorkspace } from "./workspaceContext";
import { setWorkspace, toggled, useWorkspaceState } from "./workspaceState";

interface EntryProps {
  name: string;
  detail: string;
  color: string | undefined;
  mono?: boolean;
  onToggle: () => void;
}

function Entry({ name, detail, color, mono, onToggle }: EntryProps) {
  return (
    <li className="border-hair border-t first:border-0">
      <label className="relative flex min-h-10 cursor-pointer items-center gap-2.5 rounded-[4px] px-1 hover:bg-raised has-focus-visible:outline-2 has-focus-visible:outline-focus has-focus-visible:outline-offset-[-2px]">
        <input
          type="checkbox"
          checked={color !== undefined}
          onChange={onToggle}
          className="absolute inset-0 cursor-pointer appearance-none opacity-0"
        />
        <span
          aria-hidden="true"
          className="size-4 shrink-0 rounded-[4px] border"
          style={color ? { background: color, borderColor: color } : { borderColor: "var(--control)" }}
        />
        <span className="min-w-0 flex-1 py-1">
          <span className={mono ? "block truncate font-mono" : "block truncate font-medium"}>{name}</span>
          <span className="block truncate text-muted">{detail}</span>
        </span>
      </label>
    </li>
  );
}

/** List of stored runs and sweeps; the chosen ones are overlaid. */
export function SourceChooser() {
  const { runs, sweeps } = useWorkspaceState();
  const { sources, failed } = useWorkspace();
  const query = useInfiniteQuery(runPages);
  const stored = useQuery({ queryKey: ["sweeps"], queryFn: ({ signal }) => api.sweeps({ signal }) });
  const [text, setText] = useState("");
  const colorOf = (key: string) => sources.find((one) => one.key === key)?.color;
  const words = text.toLowerCase();
  const foundRuns = (query.data?.pages.flatMap((page) => page.runs) ?? []).filter((run) =>
    matches(run, text, "all"),
  );
  const foundSweeps = (stored.data?.sweeps ?? []).filter((one) => one.name.toLowerCase().includes(words));
  const chosen = runs.length + sweeps.length;
  const state: BodyState = queryState(query, "Could not load the runs", "table");
  return (
    <Panel
      title="Runs and sweeps"
      subtitle={`${count(chosen)} chosen`}
      state={state}
      actions={
        <Button
          variant="quiet"
          disabled={chosen === 0}
          onClick={() => setWorkspace({ runs: [], sweeps: [], keep: {}, axes: null })}
        >
          Clear
        </Button>
      }
      note={failed.length ? `Could not be loaded: ${failed.map(shortRunId).join(", ")}` : undefined}
      bodyClass="flex flex-col text-12"
    >
      <SearchBox
        label="Search"
        placeholder="Search runs and sweeps"
        value={text}
        onChange={setText}
        shortcut
        className="shrink-0"
      />
      <ScrollRegion label="Runs and sweeps" className="mt-2 min-h-40 flex-1 max-md:max-h-72">
        {foundSweeps.length ? <h3 className="px-1 py-1 text-faint">Sweeps</h3> : null}
        <ul>
          {foundSweeps.map((one) => (
            <Entry
              key={one.name}
              name={one.name}
              detail={`${count(one.cells)} cells, ${date(one.modified_at)}`}
              color={colorOf(one.name)}
              onToggle={() => setWorkspace({ sweeps: toggled(sweeps, one.name) })}
            />
          ))}
        </ul>
        <h3 className="px-1 py-1 text-faint">Runs</h3>
        <ul>
          {foundRuns.map((run) => (
            <Entry
              key={run.run_id}
              name={runName(run)}
              mono={!run.name}
              detail={`${run.scenario}, load ${significant(run.load)}, seed ${run.seed}, ${count(run.tasks)} tasks, ${date(run.created_at)}`}
              color={colorOf(run.run_id)}
              onToggle={() => setWorkspace({ runs: toggled(runs, run.run_id) })}
            />
          ))}
        </ul>
        {query.hasNextPage ? (
          <Button variant="quiet" onClick={() => void query.fetchNextPage()}>
            Older runs
          </Button>
        ) : null}
        {foundRuns.length + foundSweeps.length ? null : (
          <p className="p-4 text-center text-muted">Nothing matches.</p>
        )}
      </ScrollRegion>
    </Panel>
  );
}
