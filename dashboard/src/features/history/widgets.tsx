/** The widgets of Historical Analysis and where they stand at first. Rows are 24 px. */
import type { WidgetDef } from "../../components/widget/WidgetGrid";
import { DataCollection } from "./DataCollection";
import { LongTermTrend } from "./LongTermTrend";
import { RetrainingTimeline } from "./RetrainingTimeline";
import { RunDiffSummary } from "./RunDiffSummary";
import { RunList } from "./RunList";
import { RunPlayback } from "./RunPlayback";

const at = (x: number, y: number, w: number, h: number) => ({ x, y, w, h });

export const HISTORY_WIDGETS: readonly WidgetDef[] = [
  {
    id: "playback",
    title: "Playback",
    lg: at(0, 0, 12, 18),
    md: at(0, 0, 6, 23),
    sm: 24,
    element: <RunPlayback />,
  },
  {
    id: "trend",
    title: "Long-term trend",
    lg: at(0, 18, 8, 20),
    md: at(0, 23, 6, 17),
    sm: 16,
    element: <LongTermTrend />,
  },
  {
    id: "collection",
    title: "Data collection",
    lg: at(8, 18, 4, 20),
    md: at(0, 40, 6, 20),
    sm: 18,
    element: <DataCollection />,
  },
  {
    id: "retraining",
    title: "Retraining timeline",
    lg: at(0, 38, 12, 17),
    md: at(0, 60, 6, 16),
    sm: 17,
    element: <RetrainingTimeline />,
  },
  { id: "runs", title: "Runs", lg: at(0, 55, 7, 16), md: at(0, 76, 6, 17), sm: 20, element: <RunList /> },
  {
    id: "diff",
    title: "Diff of two runs",
    lg: at(7, 55, 5, 16),
    md: at(0, 93, 6, 14),
    sm: 14,
    element: <RunDiffSummary />,
  },
];
