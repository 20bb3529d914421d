import { useMemo } from "react";
import { SavedViews } from "../../components/SavedViews";
import { WhatIf } from "../../components/whatIf/WhatIf";
import { gridPlace, type WidgetDef, WidgetGrid } from "../../components/widget/WidgetGrid";
import { OverlayCurves } from "./OverlayCurves";
import { OverlayTable } from "./OverlayTable";
import { ParallelPanel } from "./ParallelPanel";
import { keeps, useScales } from "./parallelAxes";
import { SourceChooser } from "./SourceChooser";
import { WorkspaceContext } from "./workspaceContext";
import { useSources } from "./workspaceData";
import { useWorkspaceState } from "./workspaceState";

const WIDGETS: readonly WidgetDef[] = [
  {
    id: "sources",
    title: "Runs and sweeps",
    lg: gridPlace(0, 0, 3, 20),
    md: gridPlace(0, 0, 6, 11),
    sm: 14,
    element: <SourceChooser />,
  },
  {
    id: "curves",
    title: "Curves",
    lg: gridPlace(3, 0, 4, 20),
    md: gridPlace(0, 11, 6, 18),
    sm: 18,
    element: <OverlayCurves />,
  },
  {
    id: "table",
    title: "Table",
    lg: gridPlace(7, 0, 5, 20),
    md: gridPlace(0, 29, 6, 12),
    sm: 12,
    element: <OverlayTable />,
  },
  {
    id: "parallel",
    title: "Parallel coordinates",
    lg: gridPlace(0, 20, 12, 19),
    md: gridPlace(0, 41, 6, 19),
    sm: 19,
    element: <ParallelPanel />,
  },
  {
    id: "what-if",
    title: "What-if",
    lg: gridPlace(0, 39, 12, 26),
    md: gridPlace(0, 60, 6, 42),
    sm: 40,
    element: <WhatIf />,
  },
];

/** View "Workspace": any number of runs and sweeps in one picture, kept in the address. */
export default function WorkspaceView() {
  const { keep } = useWorkspaceState();
  const { sources, rows, pending, failed } = useSources();
  const scales = useScales(rows);
  const kept = useMemo(() => rows.filter(keeps(scales, keep)), [rows, scales, keep]);
  const data = useMemo(() => ({ sources, rows, kept, pending, failed }), [sources, rows, kept, pending, failed]);
  return (
    <WorkspaceContext value={data}>
      <header className="mb-4 flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 className="font-semibold text-20">Workspace</h1>
        <p className="text-12 text-muted max-md:order-last max-md:w-full">
          Overlay runs and sweeps. The address holds the whole view: a link opens the same.
        </p>
        <div className="ml-auto">
          <SavedViews />
        </div>
      </header>
      <WidgetGrid view="workspace" widgets={WIDGETS} />
    </WorkspaceContext>
  );
}
