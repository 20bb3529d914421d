import { Trash2 } from "lucide-react";
import type { Run } from "../../client/models";
import { Link } from "../../components/Link";
import { IconButton } from "../../components/ui/Button";
import { RunLetter, RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { count, date, NOTHING, ratio, shortRunId, significant } from "../../lib/format";
import type { RunLeader } from "../../lib/runLeader";
import type { SchedulerStyle } from "../../lib/schedulerStyle";

interface RunRowProps {
  run: Run;
  leader: RunLeader | null;
  style: SchedulerStyle | null;
  /** Whether the comparison is still loading. */
  pending: boolean;
  letter: "A" | "B" | null;
  onPick: () => void;
  onDelete: () => void;
}

/** Button that deletes a run; a run that has not ended has none. */
function DeleteButton({ run, onDelete }: Pick<RunRowProps, "run" | "onDelete">) {
  if (run.status !== "stopped") return null;
  return (
    <IconButton label={`Delete the run of ${date(run.created_at)}`} onClick={onDelete}>
      <Trash2 size={13} aria-hidden="true" />
    </IconButton>
  );
}

/** Check box that selects a run for the comparison and shows its letter. */
function PickBox({ run, letter, onPick }: Pick<RunRowProps, "run" | "letter" | "onPick">) {
  return (
    <label className="relative inline-flex cursor-pointer items-center rounded-[5px] has-focus-visible:outline-2 has-focus-visible:outline-focus has-focus-visible:outline-offset-2">
      <input
        type="checkbox"
        checked={letter !== null}
        onChange={onPick}
        aria-label={`Compare the run of ${date(run.created_at)}${letter ? `, now ${letter}` : ""}`}
        className="absolute inset-0 cursor-pointer appearance-none opacity-0"
      />
      <RunLetter on={letter !== null}>{letter ?? "·"}</RunLetter>
    </label>
  );
}

function Name({ run }: { run: Run }) {
  return (
    <Link
      to={{ view: "run", id: run.run_id }}
      className="rounded-[4px] font-mono underline decoration-hair underline-offset-4 hover:decoration-current"
      title={run.run_id}
    >
      {shortRunId(run.run_id)}
    </Link>
  );
}

function LeaderName({ leader, style, pending }: Pick<RunRowProps, "leader" | "style" | "pending">) {
  if (pending) return <span className="skeleton block h-2.5 w-20" />;
  if (!leader) return <span className="text-faint">{NOTHING}</span>;
  if (leader.close) return <span className="text-muted">too close to call</span>;
  return style ? <SchedulerName style={style} /> : leader.name;
}

export function RunRow({ run, leader, style, pending, letter, onPick, onDelete }: RunRowProps) {
  return (
    <tr className="h-8 border-hair border-t hover:bg-raised">
      <td>
        <PickBox run={run} letter={letter} onPick={onPick} />
      </td>
      <td className="whitespace-nowrap">
        <Name run={run} />
      </td>
      <td className="whitespace-nowrap px-2 text-muted">{date(run.created_at)}</td>
      <td className="max-w-44 truncate px-2">
        {run.scenario}
        <span className="text-muted">, load {significant(run.load, 2)}</span>
      </td>
      <td className="px-2 text-right max-lg:hidden">{run.seed}</td>
      <td className="px-2 max-lg:hidden">
        <SourceTag source={run.source} />
      </td>
      <td className="px-2 text-right">{count(run.tasks)}</td>
      <td className="max-w-36 truncate px-2">
        <LeaderName leader={leader} style={style} pending={pending} />
      </td>
      <td className="px-2 text-right">{ratio(leader?.ratio)}</td>
      <td className="text-right">
        <RunStatus status={run.status} />
      </td>
      <td className="w-8 text-right">
        <DeleteButton run={run} onDelete={onDelete} />
      </td>
    </tr>
  );
}

/** Row of the list of runs on a phone. */
export function RunCard({ run, leader, style, pending, letter, onPick, onDelete }: RunRowProps) {
  return (
    <li className="flex items-start gap-3 border-hair border-t py-2.5 first:border-t-0">
      <span className="pt-0.5">
        <PickBox run={run} letter={letter} onPick={onPick} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="flex justify-between gap-2">
          <Name run={run} />
          <RunStatus status={run.status} />
        </p>
        <p className="truncate text-muted">
          {run.scenario}, load {significant(run.load, 2)}, seed {run.seed}, {run.source}
        </p>
        <p className="flex justify-between gap-2 text-muted">
          <span>
            {date(run.created_at)} · {count(run.tasks)} tasks
          </span>
        </p>
        <p className="flex justify-between gap-2">
          <LeaderName leader={leader} style={style} pending={pending} />
          <span>{ratio(leader?.ratio)}</span>
        </p>
      </div>
      <DeleteButton run={run} onDelete={onDelete} />
    </li>
  );
}
