import type { RunDetail } from "../../client/models";
import { Link } from "../../components/Link";
import { RunLetter, RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { count, date, ratio, shortRunId, significant } from "../../lib/format";
import { leaderOf } from "../../lib/runLeader";
import { useStylesOf } from "../../store/schedulerStyles";

/** Card of one of the two runs: settings, progress and leader. */
export function DiffRunCard({ letter, when, run }: { letter: "A" | "B"; when: string; run: RunDetail }) {
  const leader = leaderOf(run);
  const style = useStylesOf(leader ? [leader.name] : []).get(leader?.name ?? "");
  return (
    <section className="panel p-4 text-12" aria-label={`Run ${letter}, ${when}`}>
      <p className="flex flex-wrap items-center gap-2">
        <RunLetter>{letter}</RunLetter>
        <span className="text-muted">{when}</span>
        <Link
          to={{ view: "run", id: run.run_id }}
          className="font-mono text-14 underline decoration-hair underline-offset-4 hover:decoration-current"
          title={run.run_id}
        >
          {shortRunId(run.run_id)}
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
      <p className="mt-1 flex flex-wrap items-center gap-2 text-muted">
        {leader === null ? (
          "The oracle was not part of this run, so there is no leader."
        ) : leader.close ? (
          "Leader: too close to call"
        ) : (
          <>
            Leader {style ? <SchedulerName style={style} className="text-ink" /> : leader.name}
            {ratio(leader.ratio)} oracle
          </>
        )}
      </p>
    </section>
  );
}
