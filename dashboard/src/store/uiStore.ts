/** Store of the page's state: view, time range, selection and theme, kept in step with the address bar. */
import { create } from "zustand";
import type { ThemeName } from "../lib/designTokens";
import { parsePath, pathOf, type Route } from "./routes";
import { DEFAULTS, formatQuery, parseQuery, type UrlState } from "./urlState";

interface UiState extends UrlState {
  route: Route;
  /** Virtual seconds under the pointer, shared by all charts over time. */
  crosshair: number | null;
}

const here = (): UiState => ({
  ...parseQuery(window.location.search),
  route: parsePath(window.location.pathname),
  crosshair: null,
});

export const useUi = create<UiState>(() => ({ ...DEFAULTS, route: { view: "compare" }, crosshair: null }));

/** Address of a view. Choices of the workspace are in its own address only. */
function addressOf(route: Route, state: UrlState): string {
  return pathOf(route) + formatQuery(route.view === "workspace" ? state : { ...state, workspace: {} });
}

function write(replace: boolean): void {
  const state = useUi.getState();
  const url = addressOf(state.route, state) + (replace ? window.location.hash : "");
  const current = window.location.pathname + window.location.search + window.location.hash;
  if (url === current) return;
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
}

/** Reads the state from the address now and at every navigation. Returns a function that stops this. */
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

/** Changes the state and the address without a new history entry. */
export function setUi(change: Partial<UrlState>): void {
  useUi.setState(change);
  if (change.theme !== undefined) applyTheme();
  write(true);
}

export function setCrosshair(t: number | null): void {
  if (useUi.getState().crosshair !== t) useUi.setState({ crosshair: t });
}

export function navigate(route: Route, change: Partial<UrlState> = {}): void {
  const { route: from, layout } = useUi.getState();
  useUi.setState({ route, task: null, layout: from.view === route.view ? layout : null, ...change });
  write(false);
  window.scrollTo(0, 0);
}

/** Opens an address of this page, e.g. that of a saved view. */
export function openAddress(address: string): void {
  window.history.pushState(null, "", address);
  useUi.setState(here());
  applyTheme();
  window.scrollTo(0, 0);
}

/** Address of another view with the rest of the state. */
export function hrefOf(route: Route, change: Partial<UrlState> = {}): string {
  const state = useUi.getState();
  const layout = state.route.view === route.view ? state.layout : null;
  return addressOf(route, { ...state, task: null, layout, ...change });
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
    // Without storage the theme lasts for this visit.
  }
  setUi({ theme });
}

export const useTheme = (): ThemeName => useUi(themeOf);
