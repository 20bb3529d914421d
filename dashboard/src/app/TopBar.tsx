import { CircleHelp, Moon, Pause, Play, Plus, Snowflake, Sun } from "lucide-react";
import { lazy, Suspense } from "react";
import { Link } from "../components/Link";
import { Button, IconButton } from "../components/ui/Button";
import { classNames } from "../components/ui/classNames";
import { useLive } from "../store/liveStore";
import { hasTimeRange, type Route } from "../store/routes";
import { openStudio } from "../store/studioStore";
import { toggleTheme, useTheme, useUi } from "../store/uiStore";
import { toggleFreeze, togglePause } from "./appActions";
import { ConnectionStatus } from "./ConnectionStatus";
import { Logo } from "./Logo";
import { RangePicker } from "./RangePicker";

const VIEWS: readonly { route: Route; label: string; key: string }[] = [
  { route: { view: "compare" }, label: "Compare", key: "1" },
  { route: { view: "scheduler", name: null }, label: "Scheduler", key: "2" },
  { route: { view: "history" }, label: "History", key: "3" },
  { route: { view: "runtime" }, label: "Runtime", key: "4" },
  { route: { view: "workspace" }, label: "Workspace", key: "5" },
  { route: { view: "cluster" }, label: "Cluster", key: "6" },
];
/** Views that the navigation marks as part of another one. */
const PARENTS: Partial<Record<Route["view"], Route["view"]>> = {
  run: "history",
  diff: "history",
  learning: "history",
};
/** Loaded later, because its menu would add 2 % to the shell. */
const SpeedPicker = lazy(() => import("./SpeedPicker"));

function Views() {
  const current = useUi((s) => s.route.view);
  return (
    <nav
      aria-label="Views"
      className="flex max-md:order-last max-md:w-full max-md:gap-0.5 max-md:rounded-control max-md:border max-md:border-control max-md:p-1"
    >
      {VIEWS.map(({ route, label, key }) => {
        const active = (PARENTS[current] ?? current) === route.view;
        return (
          <Link
            key={key}
            to={route}
            aria-current={active ? "page" : undefined}
            className={classNames(
              "flex h-10 items-center justify-center gap-2 px-3 text-14 transition-colors hover:text-ink max-md:flex-1 max-md:rounded-[6px] max-md:px-0 max-md:text-12 max-md:tracking-tight md:h-14 md:max-lg:px-1 md:max-lg:text-12 lg:max-[1679px]:px-1.5",
              active ? "text-ink max-md:bg-raised md:shadow-[inset_0_-2px_0_var(--accent)]" : "text-muted",
            )}
          >
            {label}
            <kbd className="kbd max-[1679px]:hidden" aria-hidden="true">
              {key}
            </kbd>
          </Link>
        );
      })}
    </nav>
  );
}

export function TopBar({ onHelp }: { onHelp: () => void }) {
  const frozen = useLive((s) => s.frozen);
  const paused = useLive((s) => s.state === "paused");
  const stopped = useLive((s) => s.state === "stopped");
  const theme = useTheme();
  const ranged = useUi((s) => hasTimeRange(s.route.view));
  return (
    <header className="glass sticky top-0 z-30 border-hair border-b">
      <div className="mx-auto flex max-w-[2560px] flex-wrap items-center gap-2 px-4 max-md:py-2 md:h-14 md:flex-nowrap md:px-6 xl:gap-3">
        <Link
          to={{ view: "compare" }}
          className="flex shrink-0 items-center gap-2.5 whitespace-nowrap rounded-control font-semibold text-14 min-[1400px]:mr-2"
        >
          <Logo />
          <span className="max-[1399px]:sr-only">Hybrid Scheduler</span>
        </Link>
        <Views />
        <div className="ml-auto flex min-w-0 items-center gap-2 xl:gap-3">
          <Button
            variant="primary"
            title="Start a run from a scenario, a trace or an earlier run (N)"
            icon={<Plus size={15} aria-hidden="true" />}
            onClick={() => openStudio()}
            className="shrink-0 max-xl:w-10 max-xl:px-0 md:max-xl:w-8"
          >
            <span className="max-xl:sr-only">New run</span>
          </Button>
          <ConnectionStatus />
          {ranged ? (
            <div className="max-xl:hidden">
              <RangePicker />
            </div>
          ) : null}
          <Button
            aria-pressed={frozen}
            title="Freeze this view; updates are buffered (Space)"
            icon={<Snowflake size={15} aria-hidden="true" />}
            hint="Space"
            onClick={toggleFreeze}
            className={classNames(
              "shrink-0 max-xl:w-10 max-xl:px-0 md:max-xl:w-8",
              frozen && "border-accent bg-raised text-accent",
            )}
          >
            <span className="max-xl:sr-only">{frozen ? "Thaw" : "Freeze"}</span>
          </Button>
          <Button
            title="Pause or resume the engine, for everyone (P)"
            icon={
              paused || stopped ? <Play size={15} aria-hidden="true" /> : <Pause size={15} aria-hidden="true" />
            }
            hint="P"
            onClick={() => void togglePause()}
            className="shrink-0 max-xl:w-10 max-xl:px-0 md:max-xl:w-8"
          >
            <span className="max-xl:sr-only">{stopped ? "Restart" : paused ? "Resume" : "Pause"}</span>
          </Button>
          <div className="h-8 min-w-16 max-md:hidden">
            <Suspense fallback={null}>
              <SpeedPicker />
            </Suspense>
          </div>
          <IconButton
            label={theme === "dark" ? "Light theme" : "Dark theme"}
            onClick={toggleTheme}
            className="max-sm:hidden"
          >
            {theme === "dark" ? <Sun size={16} aria-hidden="true" /> : <Moon size={16} aria-hidden="true" />}
          </IconButton>
          <IconButton label="Help and shortcuts" onClick={onHelp}>
            <CircleHelp size={16} aria-hidden="true" />
          </IconButton>
        </div>
      </div>
    </header>
  );
}
