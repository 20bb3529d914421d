/** A job log on a simulated cluster: nodes over time, queue, policies, and the forecast of one job. */
import { Copy, FolderOpen, Sparkles } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { announce } from "../../components/ui/announce";
import { Button } from "../../components/ui/Button";
import { Figure } from "../../components/ui/Figure";
import { Select } from "../../components/ui/Select";
import { Table } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { queryState } from "../../components/widget/queryState";
import { count, percent, significant, time } from "../../lib/format";
import type { Cell, TableData } from "../../lib/tableData";
import { ForecastFan, FragmentationLine, HeatMap, NodeGpus, QueueByUser, USER_COLORS } from "./ClusterCharts";
import { type ClusterReport, exampleFile, logFile, useClusterLog } from "./useClusterLog";

const options = (...names: string[]) => names.map((value) => ({ value, label: value.replace("_", " ") }));
const POLICIES = options("fcfs", "sjf", "saf", "wfp3", "uni", "f1", "las", "fair_share");
const BACKFILLING = options("none", "easy", "conservative");
const PLACEMENTS = options("best_fit", "fgd", "gpu_packing", "gpu_clustering", "dot_product", "random");
const shown = (format: (value: number) => string) => (value: Cell) => format(value as number);
const hours = (seconds: number): string =>
  seconds >= 172_800
    ? `${significant(seconds / 86_400)} d`
    : seconds >= 7200
      ? `${significant(seconds / 3600)} h`
      : seconds >= 120
        ? `${significant(seconds / 60)} min`
        : time(seconds);

function policyTable(report: ClusterReport): TableData {
  return {
    name: "policies",
    columns: [
      { key: "policy", label: "order" },
      { key: "slowdown", label: "bounded slowdown", numeric: true, show: shown((value) => significant(value)) },
      { key: "mean_wait", label: "mean wait", numeric: true, show: shown(hours) },
      { key: "max_wait", label: "longest", numeric: true, show: shown(hours) },
    ],
    rows: report.policies.map((row) => [row.policy, row.mean_bounded_slowdown, row.mean_wait, row.max_wait]),
  };
}

function Row({ title, right, children }: { title: ReactNode; right?: ReactNode; children: ReactNode }) {
  return (
    <div>
      <p className="flex flex-wrap justify-between gap-2 text-12 text-muted">
        <span>{title}</span>
        <span className="text-faint">{right}</span>
      </p>
      {children}
    </div>
  );
}

function NumberField({
  label,
  value,
  max,
  onChange,
}: {
  label: string;
  value: number | null;
  max: number;
  onChange: (value: number | null) => void;
}) {
  return (
    <label className="flex items-center gap-2 text-12 text-muted">
      {label}
      <input
        type="number"
        min={1}
        max={max}
        placeholder="auto"
        defaultValue={value ?? ""}
        key={value ?? "auto"}
        onBlur={(event) => {
          const number = Math.round(Number(event.target.value));
          onChange(number >= 1 && number <= max ? number : null);
        }}
        onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
        className="h-10 w-20 rounded-control border border-control bg-bg px-2 text-ink md:h-7"
      />
    </label>
  );
}

export default function ClusterView() {
  const { file, setFile, settings, change, job, setJob, report, forecast } = useClusterLog();
  const input = useRef<HTMLInputElement>(null);
  const [processors, setProcessors] = useState<number | null>(8);
  const found = report.data;
  const state = file
    ? queryState(report, "The log could not be simulated")
    : ({ kind: "empty", title: "No job log yet", hint: "Open a log, or try the made-up one." } as const);
  const example = () =>
    void exampleFile().then(
      (log) => {
        change({ nodes: null, gpus_per_node: 8 });
        setFile(log);
      },
      (error: Error) => announce(error.message),
    );
  const snippet = found?.configuration.slurm ?? found?.configuration.kueue ?? null;
  return (
    <div className="space-y-4">
      <section className="panel space-y-3 p-4" aria-label="Cluster">
        <div className="flex flex-wrap items-center gap-3">
          <h1 className="min-w-0 flex-1 basis-60 font-semibold text-20">
            {file ? file.name : "Would another policy or node have helped?"}
            <span className="block font-normal text-12 text-muted">
              simulated from a job log; nothing is stored
            </span>
          </h1>
          <input
            ref={input}
            type="file"
            aria-label="Job log"
            className="sr-only"
            tabIndex={-1}
            onChange={(event) => {
              const chosen = event.target.files?.[0];
              if (chosen) setFile(logFile(chosen));
            }}
          />
          <Button
            variant="primary"
            icon={<FolderOpen size={14} aria-hidden="true" />}
            onClick={() => input.current?.click()}
          >
            Open a job log
          </Button>
          <Button icon={<Sparkles size={14} aria-hidden="true" />} onClick={example}>
            Try a made-up log
          </Button>
        </div>
        <div className="flex flex-wrap items-center gap-3">
          <Select
            label="Order"
            options={POLICIES}
            value={settings.policy}
            onChange={(policy) => change({ policy })}
          />
          <Select
            label="Backfilling"
            options={BACKFILLING}
            value={settings.backfilling}
            onChange={(backfilling) => change({ backfilling })}
          />
          <Select
            label="Placement"
            options={PLACEMENTS}
            value={settings.placement}
            onChange={(placement) => change({ placement })}
          />
          <NumberField label="Nodes" value={settings.nodes} max={2000} onChange={(nodes) => change({ nodes })} />
          <NumberField
            label="GPUs each"
            value={settings.gpus_per_node}
            max={32}
            onChange={(gpus_per_node) => change({ gpus_per_node })}
          />
        </div>
        {found ? (
          <dl className="grid grid-cols-2 gap-3 md:grid-cols-4">
            <Figure label="Jobs" value={count(found.jobs)}>
              {found.larger_count ? `${count(found.larger_count)} larger than the cluster` : "all fit"}
            </Figure>
            <Figure label="Cluster" value={`${count(found.nodes)} nodes`}>
              {found.gpus ? `${count(found.gpus)} GPUs` : `${count(found.processors)} processors`}
            </Figure>
            <Figure label="Busy" value={percent(found.policies[0]?.utilization)}>
              until the last job ends
            </Figure>
            <Figure label="Mean wait" value={hours(found.policies[0]?.mean_wait ?? 0)}>
              longest {hours(found.policies[0]?.max_wait ?? 0)}
            </Figure>
          </dl>
        ) : null}
      </section>
      <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Panel className="h-auto!" title="Nodes over time" subtitle="pick a node to see its GPUs" state={state}>
          {found ? (
            <div className="space-y-3">
              <Row title="Allocation" right={`0 to ${hours(found.seconds[found.seconds.length - 1] ?? 0)}`}>
                <HeatMap report={found} onNode={(node) => change({ node })} />
              </Row>
              {found.gpus ? (
                <>
                  <Row title={`${found.node.name}, its ${found.node.gpus} GPUs by user`}>
                    <NodeGpus report={found} />
                  </Row>
                  <Row title="Fragmented: free GPUs that the jobs cannot use" right="dashed: packed perfectly">
                    <FragmentationLine report={found} />
                  </Row>
                </>
              ) : null}
              <Row title={`Queue: ${found.gpus ? "GPUs" : "processors"} asked for, by user`}>
                <QueueByUser report={found} />
              </Row>
              <ul className="flex flex-wrap gap-3 text-12 text-muted" aria-label="Users">
                {found.queue.users.map((user, at) => (
                  <li key={user} className="inline-flex items-center gap-1.5">
                    <i
                      aria-hidden="true"
                      className="size-2.5 rounded-[3px]"
                      style={{ background: USER_COLORS[at] }}
                    />
                    {user}
                  </li>
                ))}
              </ul>
            </div>
          ) : null}
        </Panel>
        <div className="space-y-4">
          <Panel
            className="h-auto!"
            title="When does a job start?"
            state={
              job
                ? queryState(forecast, "No forecast")
                : { kind: "empty", title: "No job chosen", hint: "Name its size below." }
            }
          >
            {forecast.data ? (
              <div className="space-y-2 text-12">
                <p className="text-14">
                  after <strong>{hours(forecast.data.median_wait)}</strong>, 90 % interval{" "}
                  {hours(forecast.data.interval[0] ?? 0)} to {hours(forecast.data.interval[1] ?? 0)}
                </p>
                <ForecastFan forecast={forecast.data} />
                <p className="text-muted">
                  At {count(forecast.data.moments)} past moments the interval covered{" "}
                  {percent(forecast.data.coverage)}. Median error {hours(forecast.data.median_error)}, by the users'
                  requests {hours(forecast.data.median_error_of_requests)}.
                  {forecast.data.simulated_waits ? " The log has no waits; simulated ones stand in." : ""}
                </p>
              </div>
            ) : null}
          </Panel>
          <form
            className="panel flex flex-wrap items-center gap-3 p-4"
            aria-label="Job of the forecast"
            onSubmit={(event) => {
              event.preventDefault();
              setJob({ processors: processors ?? 1, requested_time: 3600, user: "" });
            }}
          >
            <NumberField label="Size" value={processors} max={1_000_000} onChange={setProcessors} />
            <Button type="submit" disabled={!file}>
              Forecast a job of one hour
            </Button>
          </form>
          <Panel
            className="h-auto!"
            title="Orders of the queue"
            subtitle="the same jobs and nodes"
            state={state}
            {...(found ? { table: () => policyTable(found) } : {})}
            bodyClass="thin-scroll overflow-x-auto"
          >
            {found ? <Table data={policyTable(found)} caption="Orders of the queue" /> : null}
          </Panel>
          <Panel
            className="h-auto!"
            title="Configuration"
            subtitle="Slurm and Kueue, as far as they can"
            state={state}
          >
            {found ? (
              snippet ? (
                <div className="space-y-2">
                  {Object.entries(found.configuration).map(([system, text]) => (
                    <details key={system} open={system === "slurm"}>
                      <summary className="cursor-pointer text-12 text-muted">{system}</summary>
                      <pre className="thin-scroll overflow-x-auto rounded-control bg-bg p-2 font-mono text-12">
                        {text}
                      </pre>
                      <Button
                        icon={<Copy size={13} aria-hidden="true" />}
                        onClick={() =>
                          void navigator.clipboard?.writeText(text ?? "").then(() => announce("Copied"))
                        }
                      >
                        Copy
                      </Button>
                    </details>
                  ))}
                </div>
              ) : (
                <p className="text-12 text-muted">Neither Slurm nor Kueue has this order of the queue.</p>
              )
            ) : null}
          </Panel>
        </div>
      </div>
    </div>
  );
}
