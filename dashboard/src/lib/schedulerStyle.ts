/** Drawing style of a scheduler. Label, colours, glyph, dash and order come from GET /api/schedulers. */
import type { Scheduler } from "../client/models";
import type { ThemeName } from "./designTokens";

export interface SchedulerStyle {
  name: string;
  label: string;
  color: string;
  glyph: string;
  /** Canvas and SVG dash pattern; empty for a solid line. */
  dash: readonly number[];
  width: number;
  order: number;
  /** Whether differences are against this scheduler. */
  reference: boolean;
  /** Whether it knows durations: such schedulers are references, drawn hollow and not ranked. */
  told: boolean;
}

const DASHES: Record<string, readonly number[]> = {
  solid: [],
  dashed: [6, 4],
  dotted: [1.5, 3.5],
  "dash-dot": [8, 3, 1.5, 3],
  "long dash": [11, 4],
  thin: [],
};

export function styleOf(scheduler: Scheduler, theme: ThemeName): SchedulerStyle {
  const { look } = scheduler;
  return {
    name: scheduler.name,
    label: scheduler.label,
    color: theme === "dark" ? look.dark : look.light,
    glyph: look.glyph,
    dash: DASHES[look.dash] ?? [],
    width: look.dash === "thin" ? 1 : 1.75,
    order: scheduler.order,
    reference: scheduler.name === REFERENCE,
    told: scheduler.knows !== "nothing",
  };
}

/** Reference of every ratio on the page; the API measures regret against it (SPEC 3). */
export const REFERENCE = "oracle";

/** Style of a scheduler that is in the stream but not yet in the list of the API. */
export function fallbackStyle(name: string, theme: ThemeName): SchedulerStyle {
  return {
    name,
    label: name,
    color: theme === "dark" ? "#94A3B8" : "#475569",
    glyph: "○",
    dash: [],
    width: 1.75,
    order: Number.MAX_SAFE_INTEGER,
    reference: name === REFERENCE,
    told: name === REFERENCE,
  };
}

/** Label without its remark in parentheses, for narrow columns; the whole label is in the tooltip. */
export const shortLabel = (style: Pick<SchedulerStyle, "label">): string => style.label.replace(/ \([^)]*\)$/, "");

export const dashArray = (style: SchedulerStyle): string | undefined =>
  style.dash.length ? style.dash.join(" ") : undefined;
