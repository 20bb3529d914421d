import { Download, RotateCcw, Upload } from "lucide-react";
import { useRef, useState } from "react";
import { Button } from "../components/ui/Button";
import { Dialog } from "../components/ui/Dialog";
import { download } from "../lib/downloadFile";
import { exportLayouts, importLayouts, resetView, show, titleOf, useLayout } from "../store/layoutStore";
import { toggleTheme, useTheme, useUi } from "../store/uiStore";
import SpeedPicker from "./SpeedPicker";
import { restartTour } from "./tourStore";

const GUIDE = "https://github.com/hybrid-ml-scheduler/hybrid-ml-scheduler/blob/main/docs/guide/widgets.md";

const KEYS: readonly [string, string][] = [
  ["Space", "Freeze this view; updates are buffered"],
  ["P", "Pause or resume the engine, for everyone"],
  ["1 to 5", "Compare, Scheduler, History, Runtime, Workspace"],
  ["N", "New run"],
  ["T", "Dark or light"],
  ["[  ]", "Step back and forward"],
  ["E", "Export CSV of the widget in focus"],
  ["/", "Search"],
  ["?", "This help"],
];
const WIDGET_KEYS: readonly [string, string][] = [
  ["Tab", "Move from widget to widget"],
  ["Enter", "Expand"],
  ["V", "View as table"],
  ["M", "Move: arrows, with Shift resize, Escape ends"],
  ["Del", "Remove"],
];

function Keys({ title, keys }: { title: string; keys: readonly [string, string][] }) {
  return (
    <section>
      <h3 className="mb-2 font-semibold text-14">{title}</h3>
      <dl className="grid grid-cols-[72px_1fr] items-baseline gap-y-2">
        {keys.map(([key, text]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="kbd">{key}</kbd>
            </dt>
            <dd className="text-muted">{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function LayoutTools() {
  const view = useUi((s) => s.route.view);
  const hidden = useLayout(view)?.hidden ?? [];
  const file = useRef<HTMLInputElement>(null);
  const [message, setMessage] = useState("");
  const read = async (chosen: File | undefined) => {
    if (!chosen) return;
    setMessage(
      importLayouts(await chosen.text())
        ? "Layout imported."
        : `${chosen.name} is not a dashboard layout; nothing was changed.`,
    );
  };
  return (
    <section>
      <h3 className="mb-2 font-semibold text-14">Layout</h3>
      <div className="flex flex-wrap gap-2">
        <Button icon={<RotateCcw size={14} aria-hidden="true" />} onClick={() => resetView(view)}>
          Reset this view
        </Button>
        <Button
          icon={<Download size={14} aria-hidden="true" />}
          onClick={() => download("dashboard-layout.json", exportLayouts(), "application/json")}
        >
          Export JSON
        </Button>
        <Button icon={<Upload size={14} aria-hidden="true" />} onClick={() => file.current?.click()}>
          Import JSON
        </Button>
        <input
          ref={file}
          type="file"
          accept="application/json,.json"
          aria-label="Layout file"
          className="hidden"
          onChange={(event) => void read(event.target.files?.[0])}
        />
        {hidden.map((id) => (
          <Button key={id} variant="quiet" onClick={() => show(view, id)}>
            Restore {titleOf(id)}
          </Button>
        ))}
      </div>
      <p role="status" className="mt-2 text-muted">
        {message}
      </p>
    </section>
  );
}

/** Controls that do not fit into the top bar on a phone. */
function Settings() {
  const theme = useTheme();
  return (
    <div className="flex flex-wrap gap-2 md:hidden">
      <Button onClick={toggleTheme}>{theme === "dark" ? "Light theme" : "Dark theme"}</Button>
      <SpeedPicker className="" />
    </div>
  );
}

export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog
      title="Help"
      subtitle="Every scheduler gets the same tasks on its own cluster. Lower is better."
      onClose={onClose}
    >
      <div className="space-y-6">
        <Settings />
        <div className="grid gap-6 sm:grid-cols-2">
          <Keys title="Everywhere" keys={KEYS} />
          <Keys title="On a widget" keys={WIDGET_KEYS} />
        </div>
        <LayoutTools />
        <div className="flex flex-wrap items-center gap-4 text-muted">
          <Button
            onClick={() => {
              restartTour();
              onClose();
            }}
          >
            Take the tour
          </Button>
          <a className="text-accent underline" href={GUIDE} target="_blank" rel="noreferrer">
            Guide to every widget
          </a>
          <a className="text-accent underline" href="/api/openapi.json" target="_blank" rel="noreferrer">
            API description (OpenAPI)
          </a>
        </div>
      </div>
    </Dialog>
  );
}
