/** What this person looks at. The store is the truth; the address bar follows it, and back and forward lead it. */
import { create } from "zustand";
import type { ThemeName } from "../lib/designTokens";
import { parsePath, pathOf, type Route } from "./routes";
import { DEFAULTS, formatQuery, parseQuery, type UrlState } from "./urlState";

interface UiState extends UrlState {
  route: Route;
  /** Shared by Gantt and pulse: virtual seconds under the pointer. */
  crosshair: number | null;
}

const here = (): UiState => ({
  ...parseQuery(window.location.search),
  route: parsePath(window.location.pathname),
  crosshair: null,
});

export const useUi = create<UiState>(() => ({ ...DEFAULTS, route: { view: "compare" }, crosshair: null }));

function write(replace: boolean): void {
  const state = useUi.getState();
  const url = pathOf(state.route) + formatQuery(state) + (replace ? window.location.hash : "");
  const current = window.location.pathname + window.location.search + window.location.hash;
  if (url === current) return;
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
}

/** Read the address once and follow it from then on. Returns how to stop. */
export function followAddress(): () => void {
  useUi.setState(here());
  applyTheme();
  const back = () => {
    useUi.setState(here());
    applyTheme();
  };
  window.addEventListener("popstate", back);
  return () => window.removeEventListener("popstate", back);
}

/** Change something the address carries, without a new entry in the history. */
export function setUi(change: Partial<UrlState>): void {
  useUi.setState(change);
  if (change.theme !== undefined) applyTheme();
  write(true);
}

export function setCrosshair(t: number | null): void {
  if (useUi.getState().crosshair !== t) useUi.setState({ crosshair: t });
}

export function navigate(route: Route, change: Partial<UrlState> = {}): void {
  useUi.setState({ route, task: null, ...change });
  write(false);
  window.scrollTo(0, 0);
}

/** The address of another view with everything else kept: for real links that open in a new tab too. */
export function hrefOf(route: Route, change: Partial<UrlState> = {}): string {
  const state = useUi.getState();
  return pathOf(route) + formatQuery({ ...state, task: null, ...change });
}

const THEME_KEY = "hs.theme";

function remembered(): ThemeName | null {
  try {
    const value = window.localStorage.getItem(THEME_KEY);
    return value === "dark" || value === "light" ? value : null;
  } catch {
    return null;
  }
}

function themeOf(state: Pick<UrlState, "theme">): ThemeName {
  return state.theme ?? remembered() ?? "dark";
}

function applyTheme(): void {
  const theme = themeOf(useUi.getState());
  document.documentElement.dataset.theme = theme;
  document
    .querySelector('meta[name="theme-color"]')
    ?.setAttribute("content", theme === "dark" ? "#070B14" : "#F3F5F9");
}

export function toggleTheme(): void {
  const theme: ThemeName = themeOf(useUi.getState()) === "dark" ? "light" : "dark";
  try {
    window.localStorage.setItem(THEME_KEY, theme);
  } catch {
    // A browser that forbids storage still switches for this visit.
  }
  setUi({ theme });
}

export const useTheme = (): ThemeName => useUi(themeOf);
