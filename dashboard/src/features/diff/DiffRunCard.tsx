import type { RunDetail } from "../../client/models";
import { Link } from "../../components/Link";
import { RunLetter, RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { count, date, runName, significant } from "../../lib/format";

/** Card of one of the two runs: settings, progress and leader. */
export function DiffRunCard({ letter, when, run }: { letter: "A" | "B"; when: string; run: RunDetail }) {
  return (
    <section className="panel p-4 text-12" aria-label={`Run ${letter}, ${when}`}>
      <p className="flex flex-wrap items-center gap-2">
        <RunLetter>{letter}</RunLetter>
        <span className="text-muted">{when}</span>
        <Link
          to={{ view: "run", id: run.run_id }}
          className="text-14 underline decoration-hair underline-offset-4 hover:decoration-current"
          title={run.run_id}
        >
          {runName(run)}
        </Link>
        <SourceTag source={run.source} />
        <span className="ml-auto">
          <RunStatus status={run.status} />
        </span>
      </p>
      <p className="mt-2 text-muted">
        <span className="text-ink">{run.scenario}</span>, load {significant(run.load)}, seed {run.seed}, platform{" "}
        {run.platform}, {count(run.tasks)} tasks, began {date(run.created_at)}
      </p>
      <p className="mt-1 text-muted">
        {run.verdict?.leader ? (
          <span className="text-ink" title={run.verdict.sentence}>
            {run.verdict.title}
          </span>
        ) : (
          "No task has ended, so there is no leader."
        )}
      </p>
    </section>
  );
}
