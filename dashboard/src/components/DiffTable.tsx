import type { ReactNode } from "react";
import type { Difference } from "../client/models";
import { percent, type Quantity, quantity } from "../lib/format";
import { changeText, reachOf, shares, type Verdict, verdictOf } from "../lib/runDiff";
import { TableHead } from "./ui/TableHead";

interface DiffLine {
  key: string;
  head: ReactNode;
  difference: Difference;
  quantity: Quantity;
}

const TONES: Record<Verdict, string> = {
  better: "var(--ok)",
  worse: "var(--error)",
  close: "var(--muted)",
  same: "var(--muted)",
  open: "var(--bar)",
  none: "var(--muted)",
};

/** Relative change as a dot with its interval; an arrow where it is outside the axis. */
function Band({ difference, reach }: { difference: Difference; reach: number }) {
  const { share, half } = shares(difference);
  if (share === null) return null;
  const tone = TONES[verdictOf(difference)];
  const at = (value: number) => 50 + (Math.max(-reach, Math.min(reach, value)) / reach) * 46;
  const beyond = Math.abs(share) > reach;
  return (
    <div className="marks relative h-4" aria-hidden="true">
      <i className="absolute inset-y-0 left-1/2 w-px bg-line" />
      {half === null ? null : (
        <i
          className="absolute top-1 h-2 rounded-[2px]"
          style={{
            left: `${at(share - half)}%`,
            width: `${Math.max(0.5, at(share + half) - at(share - half))}%`,
            background: tone,
            opacity: 0.3,
          }}
        />
      )}
      <svg
        width="10"
        height="10"
        viewBox="-5 -5 10 10"
        className="absolute top-[3px] -translate-x-1/2"
        style={{ left: `${at(share)}%` }}
        aria-hidden="true"
      >
        {beyond ? (
          <path d={share < 0 ? "M4-4.5L-4 0L4 4.5z" : "M-4-4.5L4 0L-4 4.5z"} fill={tone} />
        ) : (
          <circle r="4" fill={tone} />
        )}
      </svg>
    </div>
  );
}

/** Change in per cent; on a phone the half width is on a line of its own. */
function Change({ difference, tone }: { difference: Difference; tone?: string }) {
  const [value, ...half] = changeText(difference).split(/(?= ±)/);
  return (
    <span className={tone}>
      <span className="inline-block whitespace-nowrap">{value}</span>
      <span className="inline-block whitespace-pre">{half.join("")}</span>
    </span>
  );
}

function Words({ difference }: { difference: Difference }) {
  switch (verdictOf(difference)) {
    case "close":
      return (
        <span className="text-muted" title={changeText(difference)}>
          too close<span className="max-sm:sr-only"> to call</span>
        </span>
      );
    case "same":
      return <span className="text-muted">the same</span>;
    case "better":
      return <Change difference={difference} tone="text-ok" />;
    case "worse":
      return <Change difference={difference} tone="text-error" />;
    default:
      return <Change difference={difference} />;
  }
}

interface DiffTableProps {
  lines: readonly DiffLine[];
  head: string;
  caption: string;
  /** Words for A and B. */
  when?: readonly [string, string];
}

/** Table of two runs: values before and after and the change, per scheduler or per metric. */
export function DiffTable({ lines, head, caption, when = ["before", "after"] }: DiffTableProps) {
  const reach = reachOf(lines.map((line) => line.difference));
  return (
    <table className="w-full border-collapse text-12">
      <caption className="sr-only">{caption}</caption>
      <TableHead
        columns={[
          [head],
          ...(["A", "B"] as const).map(
            (letter, side) =>
              [
                <>
                  {letter}
                  <span className="max-sm:hidden">, {when[side]}</span>
                </>,
                "px-1 text-right md:px-2",
              ] as const,
          ),
          [
            <span key="scale" className="flex justify-between px-2 text-faint">
              <span>−{percent(reach, 2)}</span>
              <span>+{percent(reach, 2)}</span>
            </span>,
            "w-[30%] max-sm:hidden",
          ],
          ["change", "text-right"],
        ]}
      />
      <tbody>
        {lines.map((line) => (
          <tr key={line.key} className="h-8 border-hair border-t" data-line={line.key}>
            <td className="max-w-36 truncate">{line.head}</td>
            <td className="whitespace-nowrap px-1 text-right md:px-2 text-muted">
              {quantity(line.difference.a, line.quantity)}
            </td>
            <td className="whitespace-nowrap px-1 text-right md:px-2 font-semibold">
              {quantity(line.difference.b, line.quantity)}
            </td>
            <td className="px-2 max-sm:hidden">
              <Band difference={line.difference} reach={reach} />
            </td>
            <td className="pl-1 text-right">
              <Words difference={line.difference} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
