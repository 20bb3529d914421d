/** Names of files that the page saves: run or view, content and date. */
import { useLive } from "./liveStore";
import { useUi } from "./uiStore";

/** Views of the live run. */
const LIVE = ["compare", "scheduler", "history"];

/** Name such as "waves-5T1Z1-ledger-2026-11-16.csv". The end of its identifier names the run. */
export function fileNameOf(content: string, ending: string): string {
  const { route } = useUi.getState();
  const { status, runId } = useLive.getState();
  const id = "id" in route ? route.id : LIVE.includes(route.view) ? (runId ?? status?.run_id ?? "") : "";
  const scenario = LIVE.includes(route.view) ? (status?.scenario ?? "") : route.view;
  const day = new Date().toISOString().slice(0, 10);
  const words = [scenario, id.slice(-6), content, day].filter(Boolean).join("-");
  return `${words.replaceAll(/[^A-Za-z0-9_]+/g, "-")}.${ending}`;
}
