import { CircleAlert, CircleCheck, Info, TriangleAlert } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { Button } from "../../components/ui/Button";
import { classNames } from "../../components/ui/classNames";
import { SearchBox } from "../../components/ui/SearchBox";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { ToggleSwitch } from "../../components/ui/ToggleSwitch";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { clock, count } from "../../lib/format";
import { shortLabel } from "../../lib/schedulerStyle";
import type { TableData } from "../../lib/tableData";
import { useStream } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import type { LogEntry } from "../../store/streamBuffers";

type Level = "all" | "info" | "warning" | "error";

/** Level of an entry, reduced to the three levels of the filter. */
function levelOf(entry: LogEntry): Exclude<Level, "all"> {
  const level = entry.level.toLowerCase();
  return level.startsWith("warn") ? "warning" : level === "error" || level === "critical" ? "error" : "info";
}

const GOOD = new Set(["retrained", "recovered", "resumed", "run_started"]);

function Mark({ entry }: { entry: LogEntry }) {
  const level = levelOf(entry);
  if (level === "error") return <CircleAlert size={14} className="text-error" aria-label="error" />;
  if (level === "warning") return <TriangleAlert size={14} className="text-warn" aria-label="warning" />;
  if (entry.type === "notification" && GOOD.has(entry.kind))
    return <CircleCheck size={14} className="text-ok" aria-label="done" />;
  return <Info size={14} className="text-faint" aria-label="info" />;
}

const SHOWN = 120;

/** Log of events, newest first. Without "follow" the list does not change. */
export function LiveLog() {
  const stream = useStream();
  const styles = useSchedulerStyles();
  const names = useMemo(() => new Map(styles.map((style) => [style.name, shortLabel(style)])), [styles]);
  const [level, setLevel] = useState<Level>("all");
  const [text, setText] = useState("");
  const [held, setHeld] = useState<LogEntry[] | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const newest = useMemo(() => stream.log.toArray().reverse(), [stream]);
  const source = held ?? newest;
  const late = held ? newest.filter((entry) => entry.seq > (held[0]?.seq ?? 0)).length : 0;
  const entries = useMemo(() => {
    const words = text.toLowerCase();
    return source.filter(
      (entry) =>
        (level === "all" || levelOf(entry) === level) &&
        (!words || `${names.get(entry.scheduler ?? "") ?? ""}: ${entry.message}`.toLowerCase().includes(words)),
    );
  }, [source, level, text, names]);
  const follow = (on: boolean) => {
    setHeld(on ? null : newest);
    if (on) list.current?.scrollTo({ top: 0 });
  };
  const table = (): TableData => ({
    name: "log",
    columns: [
      { key: "seq", label: "seq", numeric: true, show: String },
      { key: "created_at", label: "time", show: (v) => clock(v as number) },
      { key: "level", label: "level" },
      { key: "scheduler", label: "scheduler" },
      { key: "message", label: "message" },
    ],
    rows: entries.map((entry) => [
      entry.seq,
      entry.created_at,
      levelOf(entry),
      entry.scheduler ?? null,
      entry.message,
    ]),
  });
  return (
    <Panel
      title="Live log"
      state={useLiveBody({ shape: "table" })}
      tag={useLiveTag()}
      table={table}
      actions={<ToggleSwitch label="Follow" checked={held === null} onChange={follow} />}
      bodyClass="flex flex-col"
    >
      <div className="mb-2 flex flex-wrap gap-2">
        <SegmentedControl
          label="Level"
          value={level}
          onChange={setLevel}
          choices={["all", "info", "warning", "error"]}
        />
        <SearchBox
          label="Search the log"
          placeholder="Search log"
          value={text}
          onChange={setText}
          className="min-w-32 flex-1 md:h-8"
        />
      </div>
      {late > 0 ? (
        <Button variant="quiet" className="mb-1 self-start text-accent md:h-6" onClick={() => follow(true)}>
          {count(late)} newer
        </Button>
      ) : null}
      <div
        ref={list}
        role="log"
        aria-live="off"
        aria-label="Events, newest first"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keys
        tabIndex={0}
        className="thin-scroll min-h-40 flex-1 overflow-y-auto font-mono max-md:max-h-96"
      >
        {entries.length === 0 ? <p className="py-4 text-center font-sans text-muted">Nothing matches.</p> : null}
        {entries.slice(0, SHOWN).map((entry) => (
          <p key={entry.seq} className="flex gap-3 py-1 leading-4">
            <span className="shrink-0 text-faint">{clock(entry.created_at)}</span>
            <span className="shrink-0">
              <Mark entry={entry} />
            </span>
            <span
              className={classNames(
                "min-w-0 break-words",
                entry.type === "log" && levelOf(entry) === "info" ? "text-muted" : "text-ink",
              )}
            >
              {entry.scheduler ? (
                <>
                  <span className="text-ink">{names.get(entry.scheduler) ?? entry.scheduler}</span>:{" "}
                </>
              ) : null}
              {entry.message}
            </span>
          </p>
        ))}
      </div>
    </Panel>
  );
}
