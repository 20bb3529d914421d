/** Store of the widget layouts, saved in localStorage at every change. */
import { useMemo } from "react";
import { create } from "zustand";
import { setUi, useUi } from "./uiStore";
import {
  COLUMNS,
  formatLayout,
  LAYOUT_VERSION,
  loadLayouts,
  type Place,
  parseLayout,
  parseLayouts,
  type SavedLayouts,
  saveLayouts,
  type ViewLayout,
  type Width,
} from "./widgetLayout";

interface LayoutState extends SavedLayouts {
  /** Widget that the arrow keys move. */
  moving: string | null;
}

export const useLayouts = create<LayoutState>(() => ({ ...loadLayouts(), moving: null }));

const empty = (): ViewLayout => ({ places: { lg: [], md: [], sm: [] }, hidden: [] });

/** Layout of a view: that of the address, or else the stored one. */
export function useLayout(view: string): ViewLayout | undefined {
  const linked = useUi((s) => s.layout);
  const saved = useLayouts((s) => s.views[view]);
  return useMemo(() => parseLayout(linked) ?? saved, [linked, saved]);
}

/** Text of a view's own layout for an address; null for the default. */
export function layoutText(view: string): string | null {
  const { layout } = useUi.getState();
  if (layout !== null) return layout;
  const saved = useLayouts.getState().views[view];
  const width = (Object.keys(COLUMNS) as Width[]).find((name) => saved?.places[name].length) ?? "lg";
  return saved && (saved.places[width].length || saved.hidden.length)
    ? formatLayout(width, saved.places[width], saved.hidden)
    : null;
}

function change(view: string, edit: (layout: ViewLayout) => ViewLayout): void {
  const linked = parseLayout(useUi.getState().layout);
  if (linked) {
    // A layout that came with a link stays in the address and does not replace one's own.
    const next = edit(linked);
    const width = (Object.keys(COLUMNS) as Width[]).find((name) => next.places[name].length) ?? "lg";
    const text = formatLayout(width, next.places[width], next.hidden);
    setUi({ layout: next.places[width].length || next.hidden.length ? text : null });
    return;
  }
  const { views } = useLayouts.getState();
  const next = { ...views, [view]: edit(views[view] ?? empty()) };
  useLayouts.setState({ views: next });
  saveLayouts({ version: LAYOUT_VERSION, views: next });
}

export function setPlaces(view: string, width: Width, places: readonly Place[]): void {
  const kept = places.map(({ i, x, y, w, h }) => ({ i, x, y, w, h }));
  change(view, (layout) => ({ ...layout, places: { ...layout.places, [width]: kept } }));
}

/** Titles of the widgets that have been on the page, by id. */
const titles = new Map<string, string>();

export function nameWidgets(widgets: readonly { id: string; title: string }[]): void {
  for (const { id, title } of widgets) titles.set(id, title);
}

export function titleOf(widget: string): string {
  return titles.get(widget) ?? widget;
}

export function hide(view: string, widget: string): void {
  change(view, (layout) => ({ ...layout, hidden: [...new Set([...layout.hidden, widget])] }));
}

export function show(view: string, widget: string): void {
  change(view, (layout) => ({ ...layout, hidden: layout.hidden.filter((item) => item !== widget) }));
}

export function resetView(view: string): void {
  change(view, empty);
}

export function setMoving(widget: string | null): void {
  useLayouts.setState({ moving: widget });
}

export function exportLayouts(): string {
  const { views } = useLayouts.getState();
  return JSON.stringify({ version: LAYOUT_VERSION, views }, null, 2);
}

/** Imports layouts; returns false and changes nothing where the text is not a layout. */
export function importLayouts(text: string): boolean {
  const read = parseLayouts(text);
  if (!read) return false;
  useLayouts.setState({ views: read.views });
  saveLayouts(read);
  return true;
}
