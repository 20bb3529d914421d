import { CirclePause, Clock, Database, LoaderCircle, Scissors, Snowflake, WifiOff } from "lucide-react";
import { age, compact, count } from "../../lib/format";
import { classNames } from "../ui/classNames";
import type { Tag } from "./panelState";

const TONES = {
  warn: "border-warn/50 text-warn",
  info: "border-accent/50 text-accent",
  plain: "border-control text-muted",
  error: "border-error/50 text-error",
} as const;

function read(tag: Tag): { tone: keyof typeof TONES; icon: typeof Clock; text: string } {
  switch (tag.kind) {
    case "reconnecting":
      return { tone: "warn", icon: LoaderCircle, text: "reconnecting" };
    case "offline":
      return { tone: "error", icon: WifiOff, text: "offline" };
    case "stale":
      return { tone: "warn", icon: Clock, text: `${age(tag.seconds)} old` };
    case "frozen":
      return { tone: "info", icon: Snowflake, text: tag.buffered ? `frozen, +${count(tag.buffered)}` : "frozen" };
    case "paused":
      return { tone: "info", icon: CirclePause, text: "paused" };
    case "held":
      return { tone: "warn", icon: Database, text: "held" };
    case "truncated":
      return { tone: "plain", icon: Scissors, text: `${compact(tag.visible)} of ${compact(tag.of)}` };
  }
}

/** Tag with the state of a widget, at the right of its header. */
export function PanelTag({ tag }: { tag: Tag }) {
  const { tone, icon: Icon, text } = read(tag);
  return (
    <span
      className={classNames(
        "inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border px-2 text-12",
        TONES[tone],
      )}
    >
      <Icon size={13} aria-hidden="true" />
      {text}
    </span>
  );
}
