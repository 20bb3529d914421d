/** Widgets of the compare view and their default places, in rows of 24 px. */
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
import { WhatIf } from "./whatIf/WhatIf";

export const COMPARE_WIDGETS: readonly WidgetDef[] = [
  {
    id: "race",
    title: "Performance race",
    lg: gridPlace(0, 0, 12, 15),
    md: gridPlace(0, 0, 6, 16),
    sm: 22,
    element: <PerformanceRace />,
  },
  {
    id: "gantt",
    title: "Cluster Gantt",
    lg: gridPlace(0, 15, 12, 17),
    md: gridPlace(0, 16, 6, 17),
    sm: 17,
    element: <LiveGantt />,
  },
  {
    id: "pulse",
    title: "Device utilization",
    lg: gridPlace(0, 32, 5, 15),
    md: gridPlace(0, 33, 6, 15),
    sm: 15,
    element: <DeviceUtilization />,
  },
  {
    id: "radar",
    title: "Radar",
    lg: gridPlace(5, 32, 3, 15),
    md: gridPlace(0, 48, 3, 16),
    sm: 15,
    element: <OracleRadar />,
  },
  {
    id: "win-loss",
    title: "Win / loss",
    lg: gridPlace(8, 32, 4, 15),
    md: gridPlace(3, 48, 3, 16),
    sm: 15,
    element: <WinLossMatrix />,
  },
  {
    id: "workload",
    title: "Workload",
    lg: gridPlace(0, 47, 7, 14),
    md: gridPlace(0, 64, 6, 14),
    sm: 22,
    element: <WorkloadCharts />,
  },
  {
    id: "correlation",
    title: "Correlation",
    lg: gridPlace(7, 47, 5, 14),
    md: gridPlace(0, 78, 6, 14),
    sm: 13,
    element: <CorrelationMatrix />,
  },
  {
    id: "ledger",
    title: "Ledger",
    lg: gridPlace(0, 61, 8, 19),
    md: gridPlace(0, 92, 6, 19),
    sm: 18,
    element: <TaskLedger />,
  },
  {
    id: "log",
    title: "Live log",
    lg: gridPlace(8, 61, 4, 19),
    md: gridPlace(0, 111, 6, 17),
    sm: 17,
    element: <LiveLog />,
  },
  {
    id: "what-if",
    title: "What-if",
    lg: gridPlace(0, 80, 12, 22),
    md: gridPlace(0, 128, 6, 34),
    sm: 34,
    element: <WhatIf />,
  },
];
