/** Start of the page, and actions that the shell, shortcuts and menus share. */
import { api } from "../client/api";
import { announce } from "../components/ui/announce";
import { LiveFeed } from "../store/liveFeed";
import { live, useLive } from "../store/liveStore";
import { followAddress, setUi, useUi } from "../store/uiStore";

let feed: LiveFeed | null = null;

/** A token in the fragment (`#token=…`) never reaches a server log; it is moved into the tab's storage at once. */
function takeToken(): void {
  const match = /^#token=(.+)$/.exec(window.location.hash);
  if (!match?.[1]) return;
  try {
    sessionStorage.setItem("hs.token", decodeURIComponent(match[1]));
  } catch {
    // Without storage the token has to be given again.
  }
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
}

export function startApp(): void {
  takeToken();
  followAddress();
  feed = new LiveFeed(useUi.getState().freeze);
  feed.start();
}

export const retryNow = (): void => feed?.retryNow();

export function toggleFreeze(): void {
  if (useLive.getState().frozen) {
    if (live.thaw()) feed?.reload();
    setUi({ freeze: null });
    announce("View is live");
  } else {
    live.freeze();
    setUi({ freeze: useLive.getState().seq });
    announce("View is frozen; updates are buffered");
  }
}

function report(error: unknown): void {
  announce(error instanceof Error ? error.message : "The server rejected the command");
}

/** Pauses or resumes the engine through the API, for all users; a stopped run begins again. */
export async function togglePause(): Promise<void> {
  const { state } = useLive.getState();
  const paused = state === "paused";
  const stopped = state === "stopped";
  try {
    live.setStatus(await (stopped ? api.start() : paused ? api.resume() : api.pause()));
    announce(
      stopped ? "A new run with the same settings" : paused ? "Engine resumed" : "Engine paused for everyone",
    );
  } catch (error) {
    report(error);
  }
}

export async function setSpeed(speed: number): Promise<void> {
  try {
    live.setStatus(await api.speed(speed));
  } catch (error) {
    report(error);
  }
}
