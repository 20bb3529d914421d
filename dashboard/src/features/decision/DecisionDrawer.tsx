import { useQuery } from "@tanstack/react-query";
import { ChevronLeft, ChevronRight, Download, Link2 } from "lucide-react";
import { useCallback } from "react";
import { api } from "../../client/api";
import { ApiError } from "../../client/request";
import type { Explanation, TaskRecord } from "../../client/resultRecords";
import { announce } from "../../components/ui/announce";
import { Button, IconButton } from "../../components/ui/Button";
import { Dialog } from "../../components/ui/Dialog";
import { deviceWords } from "../../components/ui/GpuShareBar";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { Table } from "../../components/ui/SortableTable";
import { PanelBody } from "../../components/widget/PanelBody";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { download } from "../../lib/downloadFile";
import { cost, count, energy, memory, moment, percent, signed, significant, tick, time } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { type TableData, toCsv } from "../../lib/tableData";
import { fileNameOf } from "../../store/fileNames";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useFocus } from "../../store/selectors";
import { useShortcutHandler } from "../../store/shortcutHandlers";
import { setUi } from "../../store/uiStore";
import { GpuShareCurve } from "./GpuShareCurve";
import { partTimes, type Ran, ran } from "./partTimes";

function choiceWords(result: Ran): string {
  const share = result.fraction;
  if (share === 0) return `everything on ${deviceWords(result.device, 0)}`;
  if (share === 1) return `everything on ${deviceWords(result.device, 1)}`;
  return `${percent(share)} on ${deviceWords(result.device, 1)}, the rest on the CPU`;
}

/** Sentence with waiting time, execution time and the difference to the oracle. */
function verdict(result: Ran, style: SchedulerStyle): string {
  const waited = result.wait > 0.01 * result.latency ? `waited ${time(result.wait)} in the queues and ` : "";
  const regret = result.regret;
  const against =
    regret === null || style.reference
      ? ""
      : Math.abs(regret) < 1e-9
        ? " The oracle was not faster."
        : regret > 0
          ? ` The oracle finished it ${time(regret)} earlier.`
          : ` That is ${time(-regret)} less than the oracle's, whose queues were longer.`;
  return `It ${waited}ran for ${time(result.time)}.${against}`;
}

function tableOf(task: TaskRecord, styles: readonly SchedulerStyle[]): TableData {
  const seconds = (v: unknown) => time(v as number | null);
  return {
    name: `task-${task.task_id}`,
    columns: [
      { key: "scheduler", label: "scheduler" },
      { key: "device", label: "device" },
      { key: "fraction", label: "share", numeric: true, show: (v) => tick(v as number) },
      { key: "wait", label: "waited", numeric: true, show: seconds },
      { key: "time", label: "ran", numeric: true, show: seconds },
      { key: "energy", label: "energy", numeric: true, show: (v) => energy(v as number) },
      { key: "cost", label: "cost", numeric: true, show: (v) => cost(v as number) },
      { key: "regret", label: "regret", numeric: true, show: (v) => signed(v as number, "time") },
    ],
    rows: styles.flatMap((style) => {
      const r = task.results[style.name];
      return r
        ? [
            [
              style.name,
              deviceWords(r.device, r.fraction),
              r.fraction,
              r.wait === null ? null : Math.max(0, r.wait),
              r.time,
              r.energy,
              r.cost,
              style.reference ? null : r.regret,
            ],
          ]
        : [];
    }),
  };
}

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <p className="text-12 text-muted">{label}</p>
      <p className="font-semibold text-14">{value}</p>
    </div>
  );
}

/** Names of equal devices, the first and the last of many. */
function classWords(devices: readonly string[]): string {
  const [first, last] = [devices[0] ?? "", devices.at(-1) ?? ""];
  return devices.length < 3 ? devices.join(", ") : `${first} to ${last}`;
}

const POLICY_WORDS: Readonly<Record<string, string>> = {
  trial: "It tried a device whose speed is still unknown.",
  agent: "The agent adapted the rule.",
};

/** Tables of the values by which a learned scheduler decided. */
function PolicyValues({ explanation, name }: { explanation: Explanation; name: string }) {
  const predictions: TableData = {
    name: `predictions-${name}`,
    columns: [
      { key: "devices", label: "devices" },
      { key: "seconds", label: "predicted, whole task", numeric: true, show: (v) => time(v as number) },
      { key: "spread", label: "spread", numeric: true, show: (v) => percent(v as number) },
    ],
    rows: explanation.predictions.map((p) => [classWords(p.devices), p.seconds, p.spread]),
  };
  const options: TableData = {
    name: `options-${name}`,
    columns: [
      { key: "device", label: "option" },
      { key: "cost", label: "cost, task times", numeric: true, show: (v) => significant(v as number) },
      { key: "value", label: "Q-value", numeric: true, show: (v) => significant(v as number) },
    ],
    rows: explanation.options.map((o) => [
      o.gpu_fraction > 0 && o.gpu_fraction < 1 ? `${percent(o.gpu_fraction)} on ${o.device}` : o.device,
      o.cost,
      o.value,
    ]),
  };
  const records: TableData = {
    name: `records-${name}`,
    columns: [
      { key: "policy", label: "policy" },
      { key: "record", label: "mean cost", numeric: true, show: (v) => time(v as number) },
    ],
    rows: Object.entries(explanation.records),
  };
  return (
    <section aria-label="Values of the policy">
      <h3 className="mb-1 font-semibold text-14">Values of the policy</h3>
      <p className="mb-1 text-12 text-muted">
        {POLICY_WORDS[explanation.policy] ?? `The rule ${explanation.policy} decided, by these predictions.`}
      </p>
      <div className="thin-scroll flex flex-col gap-3 overflow-x-auto">
        {[predictions, options, records]
          .filter((data) => data.rows.length > 0)
          .map((data) => (
            <Table key={data.name} data={data} caption={data.name} />
          ))}
      </div>
    </section>
  );
}

function Body({ task }: { task: TaskRecord }) {
  const styles = useSchedulerStyles();
  const focus = useFocus();
  const known = styles.filter((style) => task.results[style.name]);
  const style = known.find((l) => l.name === focus?.name) ?? known[0];
  const result = style ? task.results[style.name] : undefined;
  if (!style || !result || !ran(result)) {
    const state: BodyState = {
      kind: "empty",
      title: "The task did not run",
      hint: "It did not fit into the memory of any device.",
    };
    return <PanelBody state={state}>{null}</PanelBody>;
  }
  const table = tableOf(task, known);
  const marks = known.flatMap((l) => {
    const r = task.results[l.name];
    return r && ran(r) ? [{ style: l, result: r }] : [];
  });
  const explanation = task.explanations[style.name];
  const error = result.predicted_time === null ? null : (result.predicted_time - result.time) / result.time;
  return (
    <div className="flex flex-col gap-6">
      <div className="grid grid-cols-2 gap-3 rounded-control border border-hair bg-bg/40 p-4 sm:grid-cols-7">
        <Fact label="size N" value={count(task.size)} />
        <Fact label="intensity I" value={tick(task.compute_intensity)} />
        <Fact label="memory M" value={memory(task.memory_required)} />
        <Fact label="waited" value={time(Math.max(0, result.wait))} />
        <Fact label="ran" value={time(result.time)} />
        <Fact label="latency" value={time(result.latency)} />
        <Fact label="regret" value={style.reference ? "–" : signed(result.regret, "time")} />
      </div>
      <section aria-label="Decision">
        <h3 className="mb-1 font-semibold text-14">
          What <SchedulerName style={style} className="align-middle" /> chose
        </h3>
        <p className="mb-2 text-12 text-muted">
          {choiceWords(result)}
          {explanation?.queued == null
            ? ""
            : ` It waited ${time(explanation.queued)} in the common queue, and was placed when a device was free.`}
        </p>
        <GpuShareCurve times={partTimes(marks.map((m) => m.result))} marks={marks} focus={style.name} />
        <p className="text-12 text-faint">
          Bold: the later of the two parts. Amber: the CPU's part. Cyan: the GPU's. Marks: every scheduler's choice.
        </p>
      </section>
      {result.predicted_time === null ? null : (
        <section aria-label="Prediction">
          <h3 className="mb-1 font-semibold text-14">Prediction</h3>
          <p className="text-12 text-muted">
            {time(result.predicted_time)}
            {result.confidence == null ? "" : ` ± ${percent(result.confidence)}`} predicted, {time(result.time)}{" "}
            taken: an error of <span className="text-ink">{percent(error)}</span>
            {result.model_version === null ? "" : `, model version ${result.model_version}`}.
          </p>
        </section>
      )}
      {explanation ? <PolicyValues explanation={explanation} name={style.name} /> : null}
      <p className="rounded-control border-warn border-l-2 bg-bg/40 px-4 py-3 text-12">{verdict(result, style)}</p>
      <section aria-label="Decisions of all schedulers">
        <h3 className="mb-1 font-semibold text-14">Decisions of all schedulers</h3>
        <p className="mb-1 text-12 text-muted">The same task, each on its own cluster</p>
        <div className="thin-scroll overflow-x-auto">
          <Table
            data={table}
            caption={`Task ${task.task_id} by scheduler`}
            render={(column, value) => {
              const one = column.key === "scheduler" ? known.find((l) => l.name === value) : undefined;
              return one ? <SchedulerName style={one} /> : undefined;
            }}
          />
        </div>
      </section>
      <div className="flex flex-wrap gap-2">
        <Button
          icon={<Download size={14} aria-hidden="true" />}
          onClick={() => download(fileNameOf(table.name, "csv"), toCsv(table), "text/csv;charset=utf-8")}
        >
          CSV
        </Button>
        <Button
          icon={<Link2 size={14} aria-hidden="true" />}
          onClick={() =>
            void navigator.clipboard?.writeText(window.location.href).then(() => announce("Link copied"))
          }
        >
          Copy link
        </Button>
      </div>
    </div>
  );
}

/** Drawer "Why this decision" for the task in the address. */
export default function DecisionDrawer({ taskId }: { taskId: number }) {
  const query = useQuery({ queryKey: ["task", taskId], queryFn: ({ signal }) => api.task(taskId, { signal }) });
  const step = useCallback((by: 1 | -1) => setUi({ task: Math.max(1, taskId + by) }), [taskId]);
  useShortcutHandler("step", step);
  const missing = query.error instanceof ApiError && query.error.status === 404;
  const state: BodyState = missing
    ? { kind: "empty", title: `No task ${taskId}`, hint: "It never existed, or its history was deleted." }
    : queryState(query, "Could not load the task", "table");
  return (
    <Dialog
      kind="sheet"
      title="Why this decision"
      subtitle={`Task ${taskId}${query.data ? ` · arrived at ${moment(query.data.arrival_time)}` : ""}`}
      onClose={() => setUi({ task: null })}
      actions={
        <>
          <IconButton label="Previous task ( [ )" onClick={() => step(-1)}>
            <ChevronLeft size={16} aria-hidden="true" />
          </IconButton>
          <IconButton label="Next task ( ] )" onClick={() => step(1)}>
            <ChevronRight size={16} aria-hidden="true" />
          </IconButton>
        </>
      }
    >
      <PanelBody state={state}>{query.data ? <Body task={query.data} /> : null}</PanelBody>
    </Dialog>
  );
}
