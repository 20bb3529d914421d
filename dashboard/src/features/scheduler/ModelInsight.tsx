import { ShareBars } from "../../components/ShareBars";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, percent, significant } from "../../lib/format";
import { useModel } from "./SchedulerSummary";
import { useSelectedScheduler } from "./selectedScheduler";

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <div className="flex h-8 items-center justify-between border-hair border-t first:border-t-0">
      <dt className="text-muted">{label}</dt>
      <dd className="font-semibold">{value}</dd>
    </div>
  );
}

/** Most kinds of tasks whose error is listed. */
const MOST_KINDS = 8;

/** Feature importance and accuracy of a model, or the state of the learning agent. */
export function ModelInsight() {
  const scheduler = useSelectedScheduler();
  const { query, model } = useModel(scheduler.name);
  const importance = Object.entries(model?.feature_importance ?? {}).sort((a, b) => b[1] - a[1]);
  const agent = model?.agent ?? null;
  const accuracy = model?.accuracy ?? null;
  const kinds = Object.entries(accuracy?.kinds ?? {});
  const state: BodyState =
    query.data && !model
      ? { kind: "empty", title: "No model", hint: "This scheduler is a fixed rule and does not learn." }
      : query.data && !importance.length && !agent && !accuracy
        ? { kind: "empty", title: "Nothing learned yet", hint: "Importances need a model and some tasks." }
        : queryState(query, "Could not load the model");
  return (
    <Panel
      title={importance.length ? "Feature importance" : "Learning agent"}
      subtitle={importance.length ? "share of the change in predicted time" : "current state"}
      state={state}
      table={() => ({
        name: `model-${scheduler.name}`,
        columns: [
          { key: "name", label: "name" },
          { key: "value", label: "value", numeric: true },
        ],
        rows: [
          ...importance.map(([name, share]): [string, number] => [name, share]),
          ...(agent
            ? ([
                ["epsilon", agent.epsilon],
                ["updates", agent.updates],
                ["loss", agent.loss],
              ] as [string, number | null][])
            : []),
          ...(accuracy ? ([["typical error", accuracy.error]] as [string, number][]) : []),
          ...kinds.map(([kind, error]): [string, number] => [`typical error, ${kind}`, error]),
        ],
      })}
      bodyClass="thin-scroll flex flex-col gap-4 overflow-y-auto"
      note={
        importance.length
          ? "Permutation importance: each property of the newest tasks is shuffled; the share is the change of the predictions."
          : undefined
      }
    >
      {importance.length ? <ShareBars shares={importance} /> : null}
      {accuracy ? (
        <dl>
          <Fact label="Outcomes learned from" value={count(accuracy.outcomes)} />
          <Fact label="Typical error of a prediction" value={percent(accuracy.error)} />
          {kinds.length > 1
            ? kinds
                .slice(0, MOST_KINDS)
                .map(([kind, error]) => <Fact key={kind} label={kind} value={percent(error)} />)
            : null}
        </dl>
      ) : null}
      {agent ? (
        <dl>
          <Fact label="Exploration ε" value={significant(agent.epsilon)} />
          <Fact label="Network updates" value={count(agent.updates)} />
          <Fact label="Last loss" value={significant(agent.loss)} />
          <Fact label="Model versions" value={count(model?.current_version)} />
        </dl>
      ) : null}
    </Panel>
  );
}
