/** Store of the widget layouts, saved in localStorage at every change. */
import { create } from "zustand";
import {
  LAYOUT_VERSION,
  loadLayouts,
  type Place,
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

function change(view: string, edit: (layout: ViewLayout) => ViewLayout): void {
  const { views } = useLayouts.getState();
  const next = { ...views, [view]: edit(views[view] ?? empty()) };
  useLayouts.setState({ views: next });
  saveLayouts({ version: LAYOUT_VERSION, views: next });
}

export function setPlaces(view: string, width: Width, places: readonly Place[]): void {
  const kept = places.map(({ i, x, y, w, h }) => ({ i, x, y, w, h }));
  change(view, (layout) => ({ ...layout, places: { ...layout.places, [width]: kept } }));
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
