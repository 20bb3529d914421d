import { Copy, Download } from "lucide-react";
import type { RunDetail } from "../../client/models";
import { urlOf } from "../../client/request";
import { Link } from "../../components/Link";
import { announce } from "../../components/ui/announce";
import { IconButton } from "../../components/ui/Button";
import { RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { age, count, date, significant } from "../../lib/format";
import { replayCommand } from "./replayCommand";

const FILES = [
  { path: "/api/export/results.csv", label: "Results, CSV" },
  { path: "/api/export/tasks.csv", label: "Tasks, CSV" },
  { path: "/api/export/results.parquet", label: "Results, Parquet" },
  { path: "/api/export/trace.json", label: "Trace for Perfetto" },
] as const;

const copy = (text: string) => void navigator.clipboard?.writeText(text).then(() => announce("Copied"));

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <div className="min-w-0">
      <dt className="truncate text-muted">{label}</dt>
      <dd className="truncate font-semibold text-14" title={value}>
        {value}
      </dd>
    </div>
  );
}

function Replay({ run }: { run: RunDetail }) {
  const replay = replayCommand(run);
  if (!replay)
    return (
      <p className="text-12 text-muted">
        These numbers were measured. The tasks can be repeated, the measured times cannot.
      </p>
    );
  return (
    <div className="min-w-0">
      <p className="mb-1 text-12 text-muted">
        Repeat this run:{" "}
        <span className="text-faint">
          {replay.shifts
            ? "the mix of tasks changes at another point there, so the set-up repeats but not every task"
            : "fixed rules repeat exactly; learning schedulers retrain by wall-clock time and may differ slightly"}
        </span>
      </p>
      <div className="flex items-center gap-2 rounded-control border border-control/60 bg-bg py-0.5 pr-1 pl-3 font-mono text-12">
        <span className="text-faint">$</span>
        <code className="min-w-0 flex-1 py-1">
          {replay.command.split(/(?= --)/).map((part) => (
            // Lines break before an option; only a long list of names breaks within one.
            <span key={part} className="inline-block max-w-full break-words pr-[1ch]">
              {part}
            </span>
          ))}
        </code>
        <IconButton label="Copy the command" onClick={() => copy(replay.command)}>
          <Copy size={13} aria-hidden="true" />
        </IconButton>
      </div>
    </div>
  );
}

/** Summary of a run: settings, downloads and the command that repeats it. */
export function RunSummary({ run }: { run: RunDetail }) {
  const ended = run.ended_at === null ? "not ended" : date(run.ended_at);
  return (
    <section className="panel space-y-4 p-4" aria-label="Run">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 break-all font-mono font-semibold text-16 sm:text-20">{run.run_id}</h1>
        <SourceTag source={run.source} />
        <RunStatus status={run.status} />
        <Link to={{ view: "history" }} className="text-12 text-accent underline underline-offset-4 md:ml-auto">
          All runs
        </Link>
      </div>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 text-12 md:grid-cols-4 xl:grid-cols-8">
        <Fact label="Scenario" value={run.scenario} />
        <Fact label="Load" value={significant(run.load)} />
        <Fact label="Seed" value={String(run.seed)} />
        <Fact label="Platform" value={run.platform} />
        <Fact label="Tasks" value={count(run.tasks)} />
        <Fact label="Began" value={date(run.created_at)} />
        <Fact label="Ended" value={ended} />
        <Fact label="Took" value={run.ended_at === null ? "–" : age(run.ended_at - run.created_at)} />
      </dl>
      <div className="flex flex-wrap gap-2">
        {FILES.map((file) => (
          <a
            key={file.path}
            href={urlOf(file.path, { query: { run_id: run.run_id } })}
            download
            className="inline-flex h-10 items-center gap-2 rounded-control border border-control px-3 text-12 hover:bg-raised md:h-8"
          >
            <Download size={14} aria-hidden="true" />
            {file.label}
          </a>
        ))}
      </div>
      <Replay run={run} />
    </section>
  );
}
