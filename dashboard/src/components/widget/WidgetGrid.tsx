import { type ReactNode, useEffect, useMemo } from "react";
import ReactGridLayout, { type Layout, moveElement, verticalCompactor } from "react-grid-layout";
import { useElementSize } from "../../hooks/useElementSize";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { hide, nameWidgets, setMoving, setPlaces, useLayout } from "../../store/layoutStore";
import { COLUMNS, merge, type Place, type Width, withoutHidden } from "../../store/widgetLayout";
import { announce } from "../ui/announce";
import { WidgetContext } from "./widgetContext";

export interface WidgetDef {
  id: string;
  title: string;
  /** Default places for twelve and for six columns, in rows of 24 px (8 px and the gutter); `sm` is the least height in rows on a phone. */
  lg: Omit<Place, "i">;
  md: Omit<Place, "i">;
  sm: number;
  element: ReactNode;
}

/** Column, row, width and height of a widget in the grid. */
export const gridPlace = (x: number, y: number, w: number, h: number): Omit<Place, "i"> => ({ x, y, w, h });

const ROW = 8;
const GUTTER = 16;

const heightOf = (rows: number): number => rows * ROW + (rows - 1) * GUTTER;

function defaults(widgets: readonly WidgetDef[], width: Width): Place[] {
  return widgets.map((widget, index) =>
    width === "sm" ? { i: widget.id, x: 0, y: index, w: 1, h: widget.sm } : { i: widget.id, ...widget[width] },
  );
}

function useWidth(): Width {
  const large = useMediaQuery("(min-width: 1280px)");
  const medium = useMediaQuery("(min-width: 768px)");
  return large ? "lg" : medium ? "md" : "sm";
}

function nudged(places: Place[], id: string, columns: number, dx: number, dy: number, grow: boolean): Place[] {
  const item = places.find((place) => place.i === id);
  if (!item) return places;
  if (grow) {
    const w = Math.min(columns - item.x, Math.max(2, item.w + dx));
    const h = Math.max(6, item.h + dy);
    const sized = places.map((place) => (place.i === id ? { ...place, w, h } : place));
    return [...verticalCompactor.compact(sized, columns)];
  }
  const x = Math.min(columns - item.w, Math.max(0, item.x + dx));
  // One row is 8 px, which is too little for one key press.
  const y = Math.max(0, item.y + dy * 8);
  // moveElement changes the object it is given, so both come from the same copy.
  const copy = places.map((place) => ({ ...place }));
  const target = copy.find((place) => place.i === id) as Place;
  const moved = moveElement(copy, target, x, y, true, false, "vertical", columns);
  return [...verticalCompactor.compact(moved, columns)];
}

/** Grid of widgets that can be dragged, resized and moved by keys; one column on a phone. */
export function WidgetGrid({ view, widgets }: { view: string; widgets: readonly WidgetDef[] }) {
  const width = useWidth();
  const [container, size] = useElementSize<HTMLDivElement>();
  const saved = useLayout(view);
  useEffect(() => nameWidgets(widgets), [widgets]);
  const visible = useMemo(() => widgets.filter((widget) => !saved?.hidden.includes(widget.id)), [widgets, saved]);
  const layout = useMemo(() => {
    const all = merge(saved?.places[width] ?? [], defaults(widgets, width));
    const places = withoutHidden(all, saved?.hidden ?? []);
    return width === "sm" ? places : [...verticalCompactor.compact(places, COLUMNS[width])];
  }, [saved, widgets, width]);

  useEffect(() => {
    const target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    target?.scrollIntoView({ block: "center" });
    target?.focus({ preventScroll: true });
    return () => setMoving(null);
  }, []);

  const change = (next: Layout) => {
    const same =
      next.length === layout.length &&
      next.every((place) => {
        const old = layout.find((item) => item.i === place.i);
        return old && old.x === place.x && old.y === place.y && old.w === place.w && old.h === place.h;
      });
    if (!same) setPlaces(view, width, next);
  };

  const frame = (widget: WidgetDef) => (
    <WidgetContext
      value={{
        view,
        id: widget.id,
        remove: () => {
          hide(view, widget.id);
          announce(`${widget.title} removed; restore it under Layout in the help`);
        },
        nudge: (dx, dy, grow) => {
          if (width === "sm") {
            const order = [...layout].sort((a, b) => a.y - b.y);
            const at = order.findIndex((place) => place.i === widget.id);
            const [item] = order.splice(at, 1);
            if (item) order.splice(Math.max(0, at + dy), 0, item);
            setPlaces(
              view,
              width,
              order.map((place, y) => ({ ...place, y })),
            );
            announce(`position ${order.findIndex((place) => place.i === widget.id) + 1} of ${order.length}`);
            return;
          }
          const next = nudged(layout, widget.id, COLUMNS[width], dx, dy, grow);
          setPlaces(view, width, next);
          const now = next.find((place) => place.i === widget.id);
          if (now) announce(`column ${now.x + 1}, row ${now.y + 1}, ${now.w} wide, ${now.h} high`);
        },
      }}
    >
      {widget.element}
    </WidgetContext>
  );

  if (width === "sm") {
    const order = [...layout].sort((a, b) => a.y - b.y);
    return (
      <div ref={container} className="flex flex-col gap-4">
        {order.map((place) => {
          const widget = visible.find((item) => item.id === place.i);
          return widget ? (
            <div key={widget.id} className="flex flex-col *:flex-1" style={{ minHeight: heightOf(widget.sm) }}>
              {frame(widget)}
            </div>
          ) : null;
        })}
      </div>
    );
  }
  return (
    <div ref={container}>
      {size.width > 0 ? (
        <ReactGridLayout
          width={size.width}
          layout={layout}
          gridConfig={{ cols: COLUMNS[width], rowHeight: ROW, margin: [GUTTER, GUTTER], containerPadding: [0, 0] }}
          dragConfig={{ handle: ".panel-drag", cancel: "button,input,a,[role=radiogroup],[role=menu]" }}
          onLayoutChange={change}
        >
          {visible.map((widget) => (
            <div key={widget.id}>{frame(widget)}</div>
          ))}
        </ReactGridLayout>
      ) : null}
    </div>
  );
}
