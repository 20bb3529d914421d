import { CirclePause, Clock, Database, LoaderCircle, Snowflake, WifiOff } from "lucide-react";
import type { ReactNode } from "react";
import { classNames } from "../components/ui/classNames";
import { useLiveTag } from "../components/widget/panelState";
import { age, count, significant } from "../lib/format";
import { useLive } from "../store/liveStore";
import { retryNow } from "./appActions";

interface StatusText {
  icon: ReactNode;
  word: string;
  detail: string;
  tone: string;
}

const mark = (Icon: typeof Clock, tone: string) => <Icon size={14} className={tone} aria-hidden="true" />;

function useStatusText(): StatusText {
  const connection = useLive((s) => s.connection);
  const seq = useLive((s) => s.seq);
  const state = useLive((s) => s.state);
  const tag = useLiveTag();
  switch (tag?.kind) {
    case "offline":
      return {
        icon: mark(WifiOff, "text-error"),
        word: "Offline",
        detail: "no answer for 30 s",
        tone: "border-error/50",
      };
    case "reconnecting":
      return {
        icon: mark(LoaderCircle, "text-warn"),
        word: "Reconnecting",
        detail: `try ${connection.attempt}, next in ${significant(connection.retryInMs / 1000, 2)} s`,
        tone: "border-warn/50",
      };
    case "stale":
      return {
        icon: mark(Clock, "text-warn"),
        word: "Stale",
        detail: `${age(tag.seconds)} old`,
        tone: "border-warn/50",
      };
    case "frozen":
      return {
        icon: mark(Snowflake, "text-accent"),
        word: "Frozen",
        detail: `+${count(tag.buffered)} updates buffered`,
        tone: "border-accent/50",
      };
    case "paused":
      return {
        icon: mark(CirclePause, "text-accent"),
        word: "Paused",
        detail: `event ${count(seq)}`,
        tone: "border-accent/50",
      };
    case "held":
      return {
        icon: mark(Database, "text-warn"),
        word: "Held",
        detail: "database unavailable",
        tone: "border-warn/50",
      };
    default:
  }
  if (connection.phase === "connecting") {
    return { icon: mark(LoaderCircle, "text-muted"), word: "Connecting", detail: "", tone: "border-control/60" };
  }
  const stopped = state === "stopped" || state === null;
  return {
    icon: <span className={classNames("size-2 rounded-full", stopped ? "bg-muted" : "bg-ok")} />,
    word: stopped ? "Connected" : "Live",
    detail: stopped ? "engine stopped" : `event ${count(seq)}`,
    tone: "border-control/60",
  };
}

/** State of the connection; a press while offline reconnects at once. */
export function ConnectionStatus() {
  const { icon, word, detail, tone } = useStatusText();
  return (
    <button
      type="button"
      onClick={retryNow}
      data-testid="connection"
      title="Connection to the server"
      className={classNames(
        "inline-flex h-8 min-w-20 items-center gap-2 rounded-full border bg-raised/60 px-3 text-12",
        tone,
      )}
    >
      {icon}
      <span className="font-medium" aria-live="polite">
        {word}
      </span>
      <span className="truncate text-muted max-[400px]:hidden max-sm:max-w-24 md:max-lg:hidden">{detail}</span>
    </button>
  );
}
