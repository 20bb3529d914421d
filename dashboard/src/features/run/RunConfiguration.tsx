import type { RunDetail } from "../../client/models";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { Panel } from "../../components/widget/Panel";
import { flattenConfig } from "./flattenConfig";

/** Configuration of a run as a list of settings. */
export function RunConfiguration({ run }: { run: RunDetail }) {
  const rows = flattenConfig(run.config);
  return (
    <Panel
      title="Configuration"
      subtitle={<span className="font-mono">{run.config_hash.slice(0, 12)}</span>}
      state={
        rows.length
          ? { kind: "ready" }
          : { kind: "empty", title: "No configuration stored", hint: "The run was recorded without one." }
      }
      table={() => ({
        name: `config-${run.run_id}`,
        columns: [
          { key: "setting", label: "setting" },
          { key: "value", label: "value" },
        ],
        rows: rows.map((row) => [row.key, row.value]),
      })}
    >
      <ScrollRegion label="Settings of the run" className="h-full">
        <dl className="text-12">
          {rows.map((row) => (
            <div
              key={row.key}
              className="flex min-h-7 items-baseline justify-between gap-4 border-hair border-t py-1 first:border-t-0"
            >
              <dt className="min-w-0 break-words font-mono text-muted">{row.key}</dt>
              <dd className="min-w-0 break-words text-right">{row.value}</dd>
            </div>
          ))}
        </dl>
      </ScrollRegion>
    </Panel>
  );
}
