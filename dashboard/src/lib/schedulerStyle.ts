/** How schedulers are drawn. Label, colours, glyph, dash and order come from GET /api/schedulers, never from here. */
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
  /** Knows the realised times: shown as a hollow reference, not as a contestant. */
  reference: boolean;
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
  };
}

/** The API measures regret against this one (SPEC 3), so it is the reference of every ratio on the page. */
export const REFERENCE = "oracle";

/** A scheduler in the stream that the list does not know yet: drawn plainly rather than dropped. */
export function fallbackStyle(name: string, theme: ThemeName): SchedulerStyle {
  return {
    name,
    label: name,
    color: theme === "dark" ? "#94A3B8" : "#475569",
    glyph: "●",
    dash: [],
    width: 1.75,
    order: Number.MAX_SAFE_INTEGER,
    reference: name === REFERENCE,
  };
}

export const dashArray = (style: SchedulerStyle): string | undefined =>
  style.dash.length ? style.dash.join(" ") : undefined;
