/** Widgets of the history view and their default places, in rows of 24 px. */
import { gridPlace, type WidgetDef } from "../../components/widget/WidgetGrid";
import { DataCollection } from "./DataCollection";
import { LongTermTrend } from "./LongTermTrend";
import { RetrainingTimeline } from "./RetrainingTimeline";
import { RunDiffSummary } from "./RunDiffSummary";
import { RunList } from "./RunList";
import { RunPlayback } from "./RunPlayback";

export const HISTORY_WIDGETS: readonly WidgetDef[] = [
  {
    id: "runs",
    title: "Runs",
    lg: gridPlace(0, 0, 7, 16),
    md: gridPlace(0, 0, 6, 17),
    sm: 20,
    element: <RunList />,
  },
  {
    id: "diff",
    title: "Diff of two runs",
    lg: gridPlace(7, 0, 5, 16),
    md: gridPlace(0, 17, 6, 14),
    sm: 14,
    element: <RunDiffSummary />,
  },
  {
    id: "playback",
    title: "Playback",
    lg: gridPlace(0, 16, 12, 20),
    md: gridPlace(0, 31, 6, 25),
    sm: 24,
    element: <RunPlayback />,
  },
  {
    id: "trend",
    title: "Long-term trend",
    lg: gridPlace(0, 36, 8, 20),
    md: gridPlace(0, 56, 6, 17),
    sm: 16,
    element: <LongTermTrend />,
  },
  {
    id: "collection",
    title: "Data collection",
    lg: gridPlace(8, 36, 4, 20),
    md: gridPlace(0, 73, 6, 20),
    sm: 18,
    element: <DataCollection />,
  },
  {
    id: "retraining",
    title: "Retraining timeline",
    lg: gridPlace(0, 56, 12, 17),
    md: gridPlace(0, 93, 6, 16),
    sm: 17,
    element: <RetrainingTimeline />,
  },
];
