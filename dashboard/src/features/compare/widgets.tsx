/** Widgets of the compare view and their default places, in rows of 24 px. */

import { WhatIf } from "../../components/whatIf/WhatIf";
import { gridPlace, type WidgetDef } from "../../components/widget/WidgetGrid";
import { CorrelationMatrix } from "./CorrelationMatrix";
import { DeviceUtilization } from "./DeviceUtilization";
import { LiveGantt } from "./LiveGantt";
import { LiveLog } from "./LiveLog";
import { OracleRadar } from "./OracleRadar";
import { PerformanceRace } from "./PerformanceRace";
import { TaskLedger } from "./TaskLedger";
import { WinLossMatrix } from "./WinLossMatrix";
import { WorkloadCharts } from "./WorkloadCharts";

export const COMPARE_WIDGETS: readonly WidgetDef[] = [
  {
    id: "race",
    title: "Performance race",
    lg: gridPlace(0, 0, 12, 17),
    md: gridPlace(0, 0, 6, 18),
    sm: 27,
    element: <PerformanceRace />,
  },
  {
    id: "gantt",
    title: "Cluster Gantt",
    lg: gridPlace(0, 17, 12, 17),
    md: gridPlace(0, 18, 6, 17),
    sm: 17,
    element: <LiveGantt />,
  },
  {
    id: "pulse",
    title: "Device utilization",
    lg: gridPlace(0, 34, 5, 15),
    md: gridPlace(0, 35, 6, 15),
    sm: 15,
    element: <DeviceUtilization />,
  },
  {
    id: "radar",
    title: "Radar",
    lg: gridPlace(5, 34, 3, 15),
    md: gridPlace(0, 50, 2, 16),
    sm: 15,
    element: <OracleRadar />,
  },
  {
    id: "win-loss",
    title: "Win / loss",
    lg: gridPlace(8, 34, 4, 15),
    md: gridPlace(2, 50, 4, 16),
    sm: 15,
    element: <WinLossMatrix />,
  },
  {
    id: "workload",
    title: "Workload",
    lg: gridPlace(0, 49, 7, 14),
    md: gridPlace(0, 66, 6, 14),
    sm: 22,
    element: <WorkloadCharts />,
  },
  {
    id: "correlation",
    title: "Correlation",
    lg: gridPlace(7, 49, 5, 14),
    md: gridPlace(0, 80, 6, 14),
    sm: 13,
    element: <CorrelationMatrix />,
  },
  {
    id: "ledger",
    title: "Ledger",
    lg: gridPlace(0, 63, 8, 19),
    md: gridPlace(0, 94, 6, 19),
    sm: 18,
    element: <TaskLedger />,
  },
  {
    id: "log",
    title: "Live log",
    lg: gridPlace(8, 63, 4, 19),
    md: gridPlace(0, 113, 6, 17),
    sm: 17,
    element: <LiveLog />,
  },
  {
    id: "what-if",
    title: "What-if",
    lg: gridPlace(0, 82, 12, 22),
    md: gridPlace(0, 130, 6, 38),
    sm: 34,
    element: <WhatIf />,
  },
];
