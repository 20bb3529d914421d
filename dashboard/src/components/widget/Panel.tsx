import { Component, type KeyboardEvent, type ReactNode, useId, useRef, useState } from "react";
import { download } from "../../lib/downloadFile";
import { savePng } from "../../lib/savePng";
import { type Cell, type Column, type TableData, toCsv } from "../../lib/tableData";
import { fileNameOf } from "../../store/fileNames";
import { setMoving, useLayouts } from "../../store/layoutStore";
import { useLive } from "../../store/liveStore";
import { announce } from "../ui/announce";
import { classNames } from "../ui/classNames";
import { Dialog } from "../ui/Dialog";
import { Table } from "../ui/SortableTable";
import { PanelBody } from "./PanelBody";
import { PanelMenu } from "./PanelMenu";
import { PanelTag } from "./PanelTag";
import { type BodyState, READY, type Tag } from "./panelState";
import { useWidget } from "./widgetContext";

interface PanelProps {
  title: string;
  subtitle?: ReactNode;
  /** Controls at the right of the header. */
  actions?: ReactNode;
  state?: BodyState;
  tag?: Tag | null;
  /** Data of the widget for "view as table" and CSV, built on demand. */
  table?: () => TableData;
  /** Export of more data than the table has; the table's data by default. */
  csv?: () => void;
  /** Line at the bottom: meaning of the marks, pairing, sample size. */
  note?: ReactNode;
  className?: string;
  bodyClass?: string;
  children: ReactNode;
}

class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const state: BodyState = {
      kind: "error",
      title: "This widget failed",
      error,
      retry: () => this.setState({ error: null }),
    };
    return <PanelBody state={state}>{null}</PanelBody>;
  }
}

/** Columns of tables that hold names of schedulers; on the screen they are labels, in files the names. */
const NAMES = new Set(["scheduler", "row", "column"]);
const DIMMED = new Set(["stale", "reconnecting", "offline"]);
const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Frame of a widget: title, state, menu and body. Its size does not depend on the state. */
export function Panel({
  title,
  subtitle,
  actions,
  state = READY,
  tag,
  table,
  csv,
  note,
  className,
  bodyClass,
  children,
}: PanelProps) {
  const widget = useWidget();
  const id = useId();
  const root = useRef<HTMLElement>(null);
  const [expanded, setExpanded] = useState(false);
  const [asTable, setAsTable] = useState(false);
  const moving = useLayouts((s) => widget !== null && s.moving === widget.id);
  const slug = widget?.id ?? title.toLowerCase().replaceAll(/\W+/g, "-");
  const ready = state.kind === "ready";
  const schedulers = useLive((s) => s.schedulers);
  const withLabels = (column: Column, value: Cell): string | undefined =>
    NAMES.has(column.key) ? schedulers.find((one) => one.name === value)?.label : undefined;

  const saveCsv =
    csv ?? (table ? () => download(fileNameOf(slug, "csv"), toCsv(table()), "text/csv;charset=utf-8") : undefined);
  const copyLink = () => {
    const url = `${window.location.href.split("#")[0]}#${slug}`;
    void navigator.clipboard?.writeText(url).then(() => announce("Link copied"));
  };
  const startMove = () => {
    setMoving(slug);
    root.current?.focus();
    announce(`${title}: arrow keys move, shift and arrows resize, Escape ends`);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== root.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    const keys: Record<string, (() => void) | undefined> = moving
      ? { Enter: () => setMoving(null), Escape: () => setMoving(null) }
      : {
          Enter: () => setExpanded(true),
          v: table && (() => setAsTable((on) => !on)),
          e: saveCsv,
          m: widget ? startMove : undefined,
          Delete: widget?.remove,
        };
    const act = moving && arrow ? () => widget?.nudge(arrow[0], arrow[1], event.shiftKey) : keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  const content = (
    <Guard>
      <PanelBody state={state}>
        {asTable && table ? <Table data={table()} caption={title} render={withLabels} /> : children}
      </PanelBody>
    </Guard>
  );
  const body = (
    <>
      <div
        className={classNames(
          "min-h-0 flex-1",
          asTable && "thin-scroll overflow-auto",
          tag && DIMMED.has(tag.kind) && "dim-marks",
          bodyClass,
        )}
      >
        {content}
      </div>
      {note && ready && !asTable ? <p className="mt-2 text-12 text-faint">{note}</p> : null}
    </>
  );

  return (
    <section
      ref={root}
      id={slug}
      aria-labelledby={id}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a panel takes the keys of its menu (Enter, V, E, M, Delete)
      tabIndex={0}
      onKeyDown={onKeyDown}
      className={classNames(
        "panel flex h-full min-w-0 flex-col p-4",
        moving && "outline-2 outline-focus outline-dashed outline-offset-2",
        className,
      )}
    >
      <header className={classNames("mb-2 flex min-h-7 items-center gap-2", widget && "panel-drag md:cursor-grab")}>
        <div className="min-w-0 flex-1 items-baseline gap-x-2 max-md:min-w-16 md:flex">
          <h2 id={id} className="shrink-0 font-semibold text-14">
            {title}
          </h2>
          {subtitle ? <p className="min-w-0 truncate text-12 text-faint">{subtitle}</p> : null}
        </div>
        <div className="flex items-center gap-1 max-md:flex-wrap max-md:justify-end md:shrink-0 md:gap-2">
          {tag ? <PanelTag tag={tag} /> : null}
          {actions}
          <PanelMenu
            title={title}
            actions={{
              expand: () => setExpanded(true),
              table: table && ready ? () => setAsTable((on) => !on) : undefined,
              tableOn: asTable,
              csv: ready ? saveCsv : undefined,
              png: () => root.current && void savePng(root.current, fileNameOf(table?.().name ?? slug, "png")),
              link: copyLink,
              move: startMove,
            }}
          />
        </div>
      </header>
      {expanded ? (
        <Dialog kind="full" title={title} subtitle={subtitle} actions={actions} onClose={() => setExpanded(false)}>
          {body}
        </Dialog>
      ) : (
        body
      )}
    </section>
  );
}
