import type { Run, Verdict } from "../../client/models";
import { Link } from "../../components/Link";
import { RunMenu } from "../../components/RunMenu";
import { classNames } from "../../components/ui/classNames";
import { RunLetter, RunStatus, SourceTag } from "../../components/ui/RunBadges";
import { count, date, NOTHING, ratio, runName, significant } from "../../lib/format";

interface RunRowProps {
  run: Run;
  /** Who leads, as the server says. */
  verdict: Verdict | null;
  /** Whether the comparison is still loading. */
  pending: boolean;
  letter: "A" | "B" | null;
  onPick: () => void;
  onDeleted: () => void;
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
      className={classNames(
        "inline-block max-w-24 truncate 2xl:max-w-48 rounded-[4px] align-bottom underline decoration-hair underline-offset-4 hover:decoration-current",
        !run.name && "font-mono",
      )}
      title={[run.name, run.run_id, ...run.tags, run.note].filter(Boolean).join(", ")}
    >
      {runName(run)}
    </Link>
  );
}

function Tags({ run }: { run: Run }) {
  return run.tags.map((tag) => (
    <span key={tag} className="ml-1.5 rounded-[5px] bg-raised px-1.5 py-0.5 text-muted">
      {tag}
    </span>
  ));
}

function Leaders({ verdict, pending }: Pick<RunRowProps, "verdict" | "pending">) {
  if (pending) return <span className="skeleton block h-2.5 w-20" />;
  if (!verdict?.leader) return <span className="text-faint">{NOTHING}</span>;
  return <span title={verdict.sentence}>{verdict.title.replace(/ (leads?|is ahead|are equal)$/, "")}</span>;
}

export function RunRow({ run, verdict, pending, letter, onPick, onDeleted }: RunRowProps) {
  return (
    <tr className="h-8 border-hair border-t hover:bg-raised">
      <td>
        <PickBox run={run} letter={letter} onPick={onPick} />
      </td>
      <td className="max-w-24 truncate whitespace-nowrap 2xl:max-w-64">
        <Name run={run} />
        <span className="max-2xl:hidden">
          <Tags run={run} />
        </span>
      </td>
      <td className="whitespace-nowrap px-2 text-muted">{date(run.created_at)}</td>
      <td className="max-w-44 truncate px-2">
        {run.scenario}
        <span className="text-muted">, load {significant(run.load, 2)}</span>
      </td>
      <td className="px-2 text-right max-[1439px]:hidden">{run.seed}</td>
      <td className="px-2 max-[1439px]:hidden">
        <SourceTag source={run.source} />
      </td>
      <td className="px-2 text-right">{count(run.tasks)}</td>
      <td className="max-w-36 truncate px-2">
        <Leaders verdict={verdict} pending={pending} />
      </td>
      <td className="px-2 text-right">{ratio(verdict?.over_floor)}</td>
      <td className="text-right">
        <RunStatus status={run.status} />
      </td>
      <td className="w-8 text-right">
        <RunMenu run={run} onDeleted={onDeleted} />
      </td>
    </tr>
  );
}

/** Row of the list of runs on a phone. */
export function RunCard({ run, verdict, pending, letter, onPick, onDeleted }: RunRowProps) {
  return (
    <li className="flex items-start gap-3 border-hair border-t py-2.5 first:border-t-0">
      <span className="pt-0.5">
        <PickBox run={run} letter={letter} onPick={onPick} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="flex justify-between gap-2">
          <span className="min-w-0 truncate">
            <Name run={run} />
            <Tags run={run} />
          </span>
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
          <Leaders verdict={verdict} pending={pending} />
          <span>{ratio(verdict?.over_floor)}</span>
        </p>
      </div>
      <RunMenu run={run} onDeleted={onDeleted} />
    </li>
  );
}
