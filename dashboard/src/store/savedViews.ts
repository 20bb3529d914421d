/** Named views: a name and the address that restores the view, kept in localStorage. */
import { create } from "zustand";
import { layoutText } from "./layoutStore";
import { hrefOf, useUi } from "./uiStore";

interface SavedView {
  name: string;
  /** Path and query. */
  address: string;
}

const KEY = "hs.views";
const MOST_NAME = 80;

/** Reads stored views; entries that are not views are left out. */
export function parseViews(text: string | null): SavedView[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(value)) return [];
    return value.flatMap((one: Partial<SavedView> | null) =>
      typeof one?.name === "string" && addressIn(one.address)
        ? [{ name: one.name, address: one.address as string }]
        : [],
    );
  } catch {
    return [];
  }
}

/** Path and query of a link to this dashboard; null for other texts and other sites. */
export function addressIn(link: unknown): string | null {
  if (typeof link !== "string" || !link.trim()) return null;
  try {
    const url = new URL(link.trim(), window.location.origin);
    return url.origin === window.location.origin ? url.pathname + url.search : null;
  } catch {
    return null;
  }
}

function stored(): SavedView[] {
  try {
    return parseViews(window.localStorage.getItem(KEY));
  } catch {
    return [];
  }
}

export const useSavedViews = create<{ views: readonly SavedView[] }>(() => ({ views: stored() }));

function setViews(views: readonly SavedView[]): void {
  useSavedViews.setState({ views });
  try {
    window.localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    // Without storage the views last for this visit.
  }
}

/** Address of the current view with its layout. */
export function currentAddress(): string {
  const { route } = useUi.getState();
  return hrefOf(route, { layout: layoutText(route.view) });
}

/** Saves an address under a name; a view of that name is replaced. */
export function saveView(name: string, address: string): void {
  const short = name.trim().slice(0, MOST_NAME);
  const others = useSavedViews.getState().views.filter((one) => one.name !== short);
  setViews([...others, { name: short, address }].sort((a, b) => a.name.localeCompare(b.name)));
}

export function deleteView(name: string): void {
  setViews(useSavedViews.getState().views.filter((one) => one.name !== name));
}
