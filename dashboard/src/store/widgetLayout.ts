/** Widget positions per view: versioned JSON in localStorage, validated when read. */
export interface Place {
  i: string;
  x: number;
  y: number;
  w: number;
  h: number;
}

export type Width = "lg" | "md" | "sm";
export const COLUMNS: Record<Width, number> = { lg: 12, md: 6, sm: 1 };

export interface ViewLayout {
  places: Record<Width, Place[]>;
  hidden: string[];
}

export interface SavedLayouts {
  version: number;
  views: Record<string, ViewLayout>;
}

export const LAYOUT_VERSION = 3;
const KEY = "hs.layout";

/** Migrations by version, each to the next one. A version without an entry falls back to the default. */
const MIGRATIONS: Record<number, (old: Record<string, unknown>) => Record<string, unknown>> = {
  // Version 1 had one view at the top level and no narrow layouts.
  1: (old) => ({
    version: 2,
    views: { compare: { places: { lg: old.places, md: [], sm: [] }, hidden: old.hidden ?? [] } },
  }),
  // In version 2 race and Gantt stood side by side; now each has the full width, so the compare view starts anew.
  2: (old) => {
    const { compare, ...views } = (old.views ?? {}) as Record<string, unknown>;
    return { version: 3, views };
  },
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function place(value: unknown, columns: number): Place | null {
  if (!isObject(value) || typeof value.i !== "string") return null;
  const { x, y, w, h } = value;
  if (![x, y, w, h].every((n) => Number.isInteger(n) && (n as number) >= 0 && (n as number) < 10_000)) return null;
  if ((w as number) < 1 || (h as number) < 1 || (w as number) > columns || (x as number) + (w as number) > columns)
    return null;
  return { i: value.i, x: x as number, y: y as number, w: w as number, h: h as number };
}

function viewLayout(value: unknown): ViewLayout | null {
  if (!isObject(value) || !isObject(value.places) || !Array.isArray(value.hidden)) return null;
  const places = {} as Record<Width, Place[]>;
  for (const width of Object.keys(COLUMNS) as Width[]) {
    const list = value.places[width];
    if (!Array.isArray(list)) return null;
    const read = list.map((item) => place(item, COLUMNS[width]));
    if (read.some((item) => item === null)) return null;
    places[width] = read as Place[];
  }
  return { places, hidden: value.hidden.filter((item): item is string => typeof item === "string") };
}

/** Parses saved layouts; null where the text is not a layout. Invalid views are left out. */
export function parseLayouts(text: string | null): SavedLayouts | null {
  if (!text) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  for (let guard = 0; guard < 20 && isObject(value) && value.version !== LAYOUT_VERSION; guard++) {
    const step = typeof value.version === "number" ? MIGRATIONS[value.version] : undefined;
    if (!step) return null;
    value = step(value);
  }
  if (!isObject(value) || value.version !== LAYOUT_VERSION || !isObject(value.views)) return null;
  const views: Record<string, ViewLayout> = {};
  for (const [name, saved] of Object.entries(value.views)) {
    const read = viewLayout(saved);
    if (read) views[name] = read;
  }
  return { version: LAYOUT_VERSION, views };
}

/** Saved places of the existing widgets; others get their default place. */
export function merge(saved: readonly Place[], defaults: readonly Place[]): Place[] {
  return defaults.map((standard) => saved.find((item) => item.i === standard.i) ?? standard);
}

/**
 * Places without the hidden widgets. A neighbour on the left, or else on the right, takes the columns of a hidden
 * widget if it stands in the same rows, so that no hole remains.
 */
export function withoutHidden(places: readonly Place[], hidden: readonly string[]): Place[] {
  let left = [...places];
  for (const id of hidden) {
    const gone = left.find((item) => item.i === id);
    if (!gone) continue;
    left = left.filter((item) => item !== gone);
    const inRows = (item: Place) => item.y >= gone.y && item.y + item.h <= gone.y + gone.h;
    const before = left.filter((item) => inRows(item) && item.x + item.w === gone.x);
    const after = left.filter((item) => inRows(item) && item.x === gone.x + gone.w);
    const takers = before.length ? before : after;
    left = left.map((item) =>
      takers.includes(item) ? { ...item, x: Math.min(item.x, gone.x), w: item.w + gone.w } : item,
    );
  }
  return left;
}

/** Text of a layout for an address: the width, each place, and each hidden widget after an exclamation mark. */
export function formatLayout(width: Width, places: readonly Place[], hidden: readonly string[]): string {
  return [
    width,
    ...places.map(({ i, x, y, w, h }) => [i, x, y, w, h].join(".")),
    ...hidden.map((id) => `!${id}`),
  ].join("~");
}

/** Reads the text of a layout; null where it is not one. */
export function parseLayout(text: string | null): ViewLayout | null {
  const [width = "", ...items] = (text ?? "").split("~");
  if (!(width in COLUMNS)) return null;
  const places = items
    .filter((item) => !item.startsWith("!"))
    .map((item) => {
      const [i, x, y, w, h] = item.split(".");
      return { i, x: Number(x), y: Number(y), w: Number(w), h: Number(h) };
    });
  const hidden = items.filter((item) => item.startsWith("!")).map((item) => item.slice(1));
  return viewLayout({ places: { lg: [], md: [], sm: [], [width]: places }, hidden });
}

export function loadLayouts(): SavedLayouts {
  try {
    return parseLayouts(window.localStorage.getItem(KEY)) ?? { version: LAYOUT_VERSION, views: {} };
  } catch {
    return { version: LAYOUT_VERSION, views: {} };
  }
}

export function saveLayouts(layouts: SavedLayouts): void {
  try {
    window.localStorage.setItem(KEY, JSON.stringify(layouts));
  } catch {
    // Private windows may refuse storage; the layout then lasts for this visit.
  }
}
