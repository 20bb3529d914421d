import { Copy } from "lucide-react";
import { useMemo, useState } from "react";
import type { Program } from "../../client/models";
import { Link } from "../../components/Link";
import { announce } from "../../components/ui/announce";
import { IconButton } from "../../components/ui/Button";
import { Figure } from "../../components/ui/Figure";
import { SourceTag } from "../../components/ui/RunBadges";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { Select } from "../../components/ui/Select";
import { Table } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { PanelBody } from "../../components/widget/PanelBody";
import { queryState } from "../../components/widget/queryState";
import { count, memory, percent, ratio, shortRunId, time } from "../../lib/format";
import type { Cell, TableData } from "../../lib/tableData";
import { colorsOf } from "./functionColors";
import { type Call, functionRows, median } from "./programCalls";
import { RuntimeGantt } from "./RuntimeGantt";
import { useProgram } from "./useProgram";

const bytes = (value: number | null): string => memory(value === null ? null : value / 1e6);
const shown = (format: (value: number) => string) => (value: Cell) => format(value as number);

function Summary({ program, calls }: { program: Program; calls: readonly Call[] }) {
  const waiting = program.devices.reduce((total, device) => total + device.waiting, 0);
  const error = median(
    calls.flatMap((call) => (call.predicted ? [Math.abs(call.seconds / call.predicted - 1)] : [])),
  );
  return (
    <section className="panel flex flex-wrap items-center gap-x-6 gap-y-3 p-4" aria-label="Program">
      <div className="min-w-0 flex-1">
        <p className="text-12 text-muted">
          {program.ended ? "ended after" : "running for"} {time(program.now)}, {program.scheduler} on{" "}
          {program.machine}
        </p>
        <h1 className="break-all font-semibold text-20">{program.program}</h1>
        <p className="flex flex-wrap items-center gap-2 text-12 text-muted">
          <SourceTag source="measured" />
          run <span className="font-mono">{shortRunId(program.run_id)}</span>
          {program.ended && program.finished > 0 ? (
            <Link to={{ view: "run", id: program.run_id }} className="text-accent underline">
              stored run
            </Link>
          ) : null}
        </p>
      </div>
      <dl className="flex flex-wrap gap-x-6 gap-y-3">
        <Figure label="Calls finished" value={count(program.finished)}>
          {count(program.unfinished)} unfinished, {count(waiting)} in queues, {count(program.failed)} failed
        </Figure>
        <Figure label="Prediction error" value={percent(error)}>
          median over {count(calls.length)} calls
        </Figure>
        <Figure label="Copied" value={bytes(program.copied)}>
          {count(program.evicted)} evicted, {count(program.written_back)} written back
        </Figure>
      </dl>
    </section>
  );
}

function functionTable(calls: readonly Call[]): TableData {
  return {
    name: "functions",
    columns: [
      { key: "function", label: "function" },
      { key: "calls", label: "calls", numeric: true, show: shown(count) },
      { key: "gpu_share", label: "on GPU", numeric: true, show: shown(percent) },
      { key: "median_s", label: "median run", numeric: true, show: shown(time) },
      { key: "wait_s", label: "median wait", numeric: true, show: shown(time) },
      { key: "transfer_s", label: "median copies", numeric: true, show: shown(time) },
      { key: "measured_by_predicted", label: "measured ÷ predicted", numeric: true, show: shown(ratio) },
    ],
    rows: functionRows(calls).map((row) => [
      row.name,
      row.calls,
      row.accelerated,
      row.median,
      row.wait,
      row.transfer,
      row.measuredByPredicted,
    ]),
  };
}

function Functions({ calls, colors }: { calls: readonly Call[]; colors: ReadonlyMap<string, string> }) {
  const data = functionTable(calls);
  return (
    <Panel
      title="Functions"
      subtitle={`${count(data.rows.length)} ${data.rows.length === 1 ? "function" : "functions"}`}
      table={() => data}
      note="Medians of the newest 20,000 calls. Measured ÷ predicted: 1 means that the prediction was right."
      bodyClass="thin-scroll overflow-x-auto"
    >
      <Table
        data={data}
        caption="Functions of the program"
        initial={{ key: "calls", down: true }}
        render={(column, value) =>
          column.key === "function" ? (
            <span className="inline-flex items-center gap-2 font-mono">
              <span
                aria-hidden="true"
                className="size-2.5 rounded-[3px]"
                style={{ background: colors.get(String(value)) }}
              />
              {value}
            </span>
          ) : undefined
        }
      />
    </Panel>
  );
}

function Devices({ program }: { program: Program }) {
  const data: TableData = {
    name: "devices",
    columns: [
      { key: "device", label: "device" },
      { key: "waiting", label: "in the queue", numeric: true, show: shown(count) },
      { key: "resident_bytes", label: "arrays there", numeric: true, show: shown(bytes) },
      { key: "limit_bytes", label: "limit", numeric: true, show: shown(bytes) },
    ],
    rows: program.devices.map((one) => [one.name, one.waiting, one.resident, one.limit]),
  };
  return (
    <Panel title="Queues and memory" table={() => data} bodyClass="thin-scroll overflow-x-auto">
      <Table data={data} caption="Queues and memory of the devices" />
    </Panel>
  );
}

function Selected({ call }: { call: Call | null }) {
  const rows: [string, string][] = call
    ? [
        ["device", call.device],
        ["submitted at", time(call.submitted)],
        ["waited", time(Math.max(0, call.start - call.submitted - call.transfer))],
        ["copies", time(call.transfer)],
        ["run, measured", time(call.seconds)],
        ["run, predicted", time(call.predicted)],
      ]
    : [];
  return (
    <Panel
      title={call ? `${call.name} #${call.number}` : "One call"}
      state={
        call ? { kind: "ready" } : { kind: "empty", title: "No call chosen", hint: "Click a bar in the chart." }
      }
    >
      <dl className="text-12">
        {rows.map(([label, value]) => (
          <div
            key={label}
            className="flex min-h-7 items-center justify-between border-hair border-t first:border-t-0"
          >
            <dt className="text-muted">{label}</dt>
            <dd className="font-medium">{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

/** A whole program that reports to this page. */
const snippet = (address: string): string => `import numpy as np
import hybrid_scheduler as hs


@hs.auto
def step(x, w):
    return hs.array_namespace(x).tanh(x @ w)


with hs.HybridExecutor(dashboard="${address}") as executor:
    for size in (64, 256, 1024) * 40:
        x = np.random.default_rng(size).normal(size=(size, size)) / size
        executor.submit(step, x, x).result()
`;

/** What this page shows, and a program to see it with. */
function FirstProgram() {
  const text = snippet(window.location.origin);
  return (
    <section className="panel mx-auto max-w-2xl space-y-3 p-6">
      <h1 className="font-semibold text-16">No program is connected yet</h1>
      <p className="text-muted">
        This page shows a program of yours while it runs on real devices: which call runs where and why, learned run
        times, and what scheduling costs. Save this as demo.py and run python demo.py on this machine:
      </p>
      <div className="flex items-start gap-2 rounded-control border border-control/60 bg-bg p-3">
        <ScrollRegion label="Program" className="flex-1">
          <pre className="font-mono text-12">{text}</pre>
        </ScrollRegion>
        <IconButton
          label="Copy the program"
          onClick={() => void navigator.clipboard?.writeText(text).then(() => announce("Copied"))}
        >
          <Copy size={14} aria-hidden="true" />
        </IconButton>
      </div>
    </section>
  );
}

/** View of programs that run on real devices now. */
export default function RuntimeView() {
  const [runId, setRunId] = useState<string | null>(null);
  const [selected, setSelected] = useState<Call | null>(null);
  const query = useProgram(runId);
  const view = query.data;
  const names = view?.calls.map((call) => call.name);
  const key = [...new Set(names)].sort().join(" ");
  const colors = useMemo(() => colorsOf(key.split(" ")), [key]);
  if (!view)
    return (
      <section className="panel min-h-64 p-4">
        <h1 className="sr-only">Runtime</h1>
        <PanelBody state={queryState(query, "Could not load the programs", "table")}>{null}</PanelBody>
      </section>
    );
  const { program, calls, programs } = view;
  if (!program) return <FirstProgram />;
  return (
    <div className="space-y-4" key={program.run_id}>
      {programs.length > 1 ? (
        <Select
          label="Program"
          value={program.run_id}
          onChange={setRunId}
          options={programs.map((one) => ({
            value: one.run_id,
            label: `${one.program} ${shortRunId(one.run_id)}`,
          }))}
        />
      ) : null}
      <Summary program={program} calls={calls} />
      <div className="grid gap-4 xl:grid-cols-[9fr_3fr]">
        <RuntimeGantt
          program={program}
          calls={calls}
          colors={colors}
          selected={selected?.number ?? null}
          onSelect={setSelected}
        />
        <Selected call={selected} />
      </div>
      <div className="grid gap-4 xl:grid-cols-[8fr_4fr]">
        <Functions calls={calls} colors={colors} />
        <Devices program={program} />
      </div>
    </div>
  );
}
