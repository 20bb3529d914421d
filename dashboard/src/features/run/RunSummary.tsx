import { Copy, Download } from "lucide-react";
import type { RunDetail } from "../../client/models";
import { urlOf } from "../../client/request";
import { FileDownload } from "../../components/FileDownload";
import { Link } from "../../components/Link";
import { RunMenu } from "../../components/RunMenu";
import { announce } from "../../components/ui/announce";
import { IconButton } from "../../components/ui/Button";
import { RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { age, count, date, runTitle, significant } from "../../lib/format";
import { navigate } from "../../store/uiStore";

/** Most tasks that the server simulates again for evidence and figures, the newest. */
const MOST_TASKS = 5000;

const FILES = [
  { path: "/api/export/results.csv", label: "Results, CSV" },
  { path: "/api/export/tasks.csv", label: "Tasks, CSV" },
  { path: "/api/export/results.parquet", label: "Results, Parquet" },
  { path: "/api/export/trace.json", label: "Trace for Perfetto" },
] as const;

const copy = (text: string) => void navigator.clipboard?.writeText(text).then(() => announce("Copied"));

/** Beginning of the names of files: the run's name, or its scenario and id. */
const fileName = (run: RunDetail): string =>
  `${run.name || run.scenario}-${run.run_id.slice(-6)}`.replace(/[^A-Za-z0-9._-]+/g, "-");

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

/** Commands that compute the run again, and what happened to it beside its settings. */
function Replay({ run }: { run: RunDetail }) {
  const { replay } = run;
  if (!replay)
    return (
      <p className="text-12 text-muted">
        {run.source === "measured"
          ? "These numbers were measured. The tasks can be repeated, the measured times cannot."
          : "This run was stored without its settings and cannot be repeated."}
      </p>
    );
  return (
    <div className="min-w-0">
      <h2 className="mb-1 text-12 text-muted">Compute it again{replay.exact ? "" : ", with differences"}</h2>
      <div className="flex items-start gap-2 rounded-control border border-control/60 bg-bg py-0.5 pr-1 pl-3 font-mono text-12">
        <code className="min-w-0 flex-1 py-1">
          {replay.commands.map((command) => (
            <span key={command} className="block">
              <span className="text-faint">$ </span>
              {command.split(/(?= --)/).map((part) => (
                // Lines break before an option; only a long list of names breaks within one.
                <span key={part} className="inline-block max-w-full break-words pr-[1ch]">
                  {part}
                </span>
              ))}
            </span>
          ))}
        </code>
        <IconButton label="Copy the command" onClick={() => copy(replay.commands.join("\n"))}>
          <Copy size={13} aria-hidden="true" />
        </IconButton>
      </div>
      {replay.notes.length ? (
        <ul className="mt-1 text-12 text-muted">
          {replay.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}

/** Summary of a run: settings, downloads and the command that repeats it. */
export function RunSummary({ run }: { run: RunDetail }) {
  const ended = run.ended_at === null ? "not ended" : date(run.ended_at);
  return (
    <section className="panel space-y-4 p-4" aria-label="Run">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 break-all font-semibold text-16 sm:text-20">{runTitle(run)}</h1>
        <span className="break-all font-mono text-12 text-muted">{run.run_id}</span>
        {run.tags.map((tag) => (
          <span key={tag} className="rounded-[5px] bg-raised px-1.5 py-0.5 text-12 text-muted">
            {tag}
          </span>
        ))}
        <SourceTag source={run.source} />
        <RunStatus status={run.status} />
        <Link to={{ view: "history" }} className="text-12 text-accent underline underline-offset-4 md:ml-auto">
          All runs
        </Link>
        <RunMenu run={run} onDeleted={() => navigate({ view: "history" })} />
      </div>
      {run.note ? <p className="max-w-prose whitespace-pre-wrap break-words text-12">{run.note}</p> : null}
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
        {run.source === "simulated" ? (
          <>
            <FileDownload
              label="Report, HTML"
              name={`${fileName(run)}-report.html`}
              path="/api/runs/{run_id}/report"
              runId={run.run_id}
              query={{ limit: MOST_TASKS }}
            />
            <FileDownload
              label="Report, PDF"
              name={`${fileName(run)}-report.pdf`}
              path="/api/runs/{run_id}/report"
              runId={run.run_id}
              query={{ format: "pdf", limit: MOST_TASKS }}
            />
            <FileDownload
              label="Evidence"
              name={`${fileName(run)}-evidence.html`}
              path="/api/runs/{run_id}/evidence"
              runId={run.run_id}
              query={{ limit: MOST_TASKS }}
            />
          </>
        ) : null}
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
      {run.source === "simulated" && run.tasks > MOST_TASKS ? (
        <p className="text-12 text-muted">
          Evidence and the figures of reports are of the newest {count(MOST_TASKS)} tasks, simulated again on empty
          machines: their numbers differ from those of the whole run.
        </p>
      ) : null}
      <Replay run={run} />
    </section>
  );
}
