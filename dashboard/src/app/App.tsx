import {
  Component,
  type ComponentType,
  lazy,
  type ReactNode,
  Suspense,
  useCallback,
  useEffect,
  useState,
} from "react";
import { Link } from "../components/Link";
import { Button } from "../components/ui/Button";
import { useLive } from "../store/liveStore";
import type { Route, ViewName } from "../store/routes";
import { useStudio } from "../store/studioStore";
import { useUi } from "../store/uiStore";
import { useShortcuts } from "./keyboardShortcuts";
import { TopBar } from "./TopBar";

type Loader = () => Promise<{ default: ComponentType }>;
const LOADERS: Record<Exclude<ViewName, "missing">, Loader> = {
  compare: () => import("../features/compare/CompareView"),
  scheduler: () => import("../features/scheduler/SchedulerView"),
  history: () => import("../features/history/HistoryView"),
  run: () => import("../features/run/RunView"),
  diff: () => import("../features/diff/DiffView"),
  runtime: () => import("../features/runtime/RuntimeView"),
  workspace: () => import("../features/workspace/WorkspaceView"),
  cluster: () => import("../features/jobs/ClusterView"),
  learning: () => import("../features/learning/LearningView"),
};
const VIEWS: Record<keyof typeof LOADERS, ComponentType> = {
  compare: lazy(LOADERS.compare),
  scheduler: lazy(LOADERS.scheduler),
  history: lazy(LOADERS.history),
  run: lazy(LOADERS.run),
  diff: lazy(LOADERS.diff),
  runtime: lazy(LOADERS.runtime),
  workspace: lazy(LOADERS.workspace),
  cluster: lazy(LOADERS.cluster),
  learning: lazy(LOADERS.learning),
};
const ViewProviders = lazy(() => import("./ViewProviders"));
const loadDrawer = () => import("../features/decision/DecisionDrawer");
const loadHelp = () => import("./HelpDialog");
const DIALOGS = [loadDrawer, loadHelp];
const DecisionDrawer = lazy(loadDrawer);
const Help = lazy(loadHelp);
const RunContextBar = lazy(() => import("./RunContextBar"));
const GuidedTour = lazy(() => import("./GuidedTour"));
const Studio = lazy(() => import("../features/studio/StudioDialog"));
const UndoToast = lazy(() => import("./UndoToast"));

/** Error boundary for a view that cannot be loaded, e.g. after an update of the server. */
class ViewGuard extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="panel mx-auto max-w-md space-y-3 p-6 text-center">
        <h1 className="font-semibold text-16">This view could not be loaded</h1>
        <p className="text-muted">A newer dashboard may have been installed, or the server is unavailable.</p>
        <Button variant="primary" onClick={() => window.location.reload()}>
          Reload
        </Button>
      </div>
    );
  }
}

function Missing({ path }: { path: string }) {
  return (
    <div className="panel mx-auto mt-16 max-w-md space-y-4 p-8 text-center">
      <h1 className="font-semibold text-20">Page not found</h1>
      <p className="break-all font-mono text-muted">{path}</p>
      <nav aria-label="Pages" className="flex justify-center gap-4 text-accent underline">
        <Link to={{ view: "compare" }}>Compare</Link>
        <Link to={{ view: "scheduler", name: null }}>Scheduler</Link>
        <Link to={{ view: "history" }}>History</Link>
      </nav>
    </div>
  );
}

/** Milliseconds after which the views that were not visited are loaded, so that they open without the server. */
const PREFETCH_MS = 10_000;

function usePrefetch(): void {
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const load of [...Object.values(LOADERS), ...DIALOGS]) void load().catch(() => {});
    }, PREFETCH_MS);
    return () => clearTimeout(timer);
  }, []);
}

const TITLES: Record<Route["view"], string> = {
  compare: "Compare",
  scheduler: "Scheduler",
  history: "History",
  run: "Run",
  diff: "Diff of two runs",
  runtime: "Runtime",
  workspace: "Workspace",
  cluster: "Cluster",
  learning: "Learning",
  missing: "Not found",
};

/** Title of the page: its view, and the scheduler where it is about one. */
function useTitle(route: Route): void {
  const name = "name" in route ? route.name : null;
  const label = useLive((s) => s.schedulers.find((scheduler) => scheduler.name === name)?.label ?? name);
  useEffect(() => {
    document.title = [label, TITLES[route.view], "Hybrid Scheduler"].filter(Boolean).join(" · ");
  }, [route.view, label]);
}

/** Views with facts of their own, which those of the live run would contradict. */
const WITHOUT_STRIP: readonly Route["view"][] = ["runtime", "workspace", "cluster", "run", "diff", "learning"];

function View({ route }: { route: Route }) {
  if (route.view === "missing") return <Missing path={route.path} />;
  // Starts loading now, so that the view loads in parallel with its providers. The boundary shows a failure.
  void LOADERS[route.view]().catch(() => {});
  const Current = VIEWS[route.view];
  return (
    <ViewGuard key={route.view}>
      <Suspense
        fallback={
          <div role="status" aria-label="Loading" className="space-y-4">
            <div className="panel h-32 p-4">
              <div className="skeleton h-4 w-1/3" />
            </div>
            <div className="panel h-80 p-4">
              <div className="skeleton h-4 w-1/4" />
            </div>
          </div>
        }
      >
        <ViewProviders>
          <Current />
        </ViewProviders>
      </Suspense>
    </ViewGuard>
  );
}

export function App() {
  const route = useUi((s) => s.route);
  const task = useUi((s) => s.task);
  const studio = useStudio((s) => s.open);
  const undo = useStudio((s) => s.undo !== null);
  const [help, setHelp] = useState(false);
  const openHelp = useCallback(() => setHelp(true), []);
  useShortcuts(openHelp);
  useTitle(route);
  usePrefetch();
  return (
    <>
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded-control focus:bg-accent focus:px-4 focus:py-2 focus:text-on-accent"
      >
        Skip to the content
      </a>
      <TopBar onHelp={openHelp} />
      {WITHOUT_STRIP.includes(route.view) ? (
        <div className="h-4" />
      ) : (
        <Suspense fallback={<div className="h-12" />}>
          <RunContextBar />
        </Suspense>
      )}
      <main id="main" tabIndex={-1} className="mx-auto max-w-[2560px] px-4 pb-8 outline-none md:px-6">
        <View route={route} />
      </main>
      <Suspense fallback={null}>
        {task !== null ? (
          <ViewProviders>
            <DecisionDrawer taskId={task} />
          </ViewProviders>
        ) : null}
        {studio ? (
          <ViewProviders>
            <Studio />
          </ViewProviders>
        ) : null}
        {undo ? <UndoToast /> : null}
        {help ? <Help onClose={() => setHelp(false)} /> : null}
        <GuidedTour />
      </Suspense>
      <div id="announcer" role="status" aria-live="polite" className="toast" />
    </>
  );
}
