/** Widgets of the compare view and their default places, in rows of 24 px. */

import { OracleRadar } from "../../components/OracleRadar";
import { WhatIf } from "../../components/whatIf/WhatIf";
import { gridPlace, type WidgetDef } from "../../components/widget/WidgetGrid";
import { useVisibleStyles } from "../../store/selectors";
import { CorrelationMatrix } from "./CorrelationMatrix";
import { DeviceUtilization } from "./DeviceUtilization";
import { LiveGantt } from "./LiveGantt";
import { LiveLog } from "./LiveLog";
import { PerformanceRace } from "./PerformanceRace";
import { TaskLedger } from "./TaskLedger";
import { WhatHappened } from "./WhatHappened";
import { WinLossMatrix } from "./WinLossMatrix";
import { WorkloadCharts } from "./WorkloadCharts";

function VisibleRadar() {
  return <OracleRadar styles={useVisibleStyles()} />;
}

export const COMPARE_WIDGETS: readonly WidgetDef[] = [
  {
    id: "race",
    title: "Performance race",
    lg: gridPlace(0, 0, 12, 18),
    md: gridPlace(0, 0, 6, 20),
    sm: 30,
    element: <PerformanceRace />,
  },
  {
    id: "what-happened",
    title: "What happened",
    lg: gridPlace(0, 18, 12, 14),
    md: gridPlace(0, 20, 6, 14),
    sm: 15,
    element: <WhatHappened />,
  },
  {
    id: "gantt",
    title: "Cluster Gantt",
    lg: gridPlace(0, 32, 12, 24),
    md: gridPlace(0, 34, 6, 24),
    sm: 24,
    element: <LiveGantt />,
  },
  {
    id: "pulse",
    title: "Device utilization",
    lg: gridPlace(0, 56, 4, 18),
    md: gridPlace(0, 58, 6, 18),
    sm: 19,
    element: <DeviceUtilization />,
  },
  {
    id: "radar",
    title: "Radar",
    lg: gridPlace(4, 56, 3, 18),
    md: gridPlace(0, 76, 2, 18),
    sm: 15,
    element: <VisibleRadar />,
  },
  {
    id: "win-loss",
    title: "Win / loss",
    lg: gridPlace(7, 56, 5, 18),
    md: gridPlace(2, 76, 4, 18),
    sm: 18,
    element: <WinLossMatrix />,
  },
  {
    id: "workload",
    title: "Workload",
    lg: gridPlace(0, 74, 7, 14),
    md: gridPlace(0, 94, 6, 14),
    sm: 22,
    element: <WorkloadCharts />,
  },
  {
    id: "correlation",
    title: "Correlation",
    lg: gridPlace(7, 74, 5, 14),
    md: gridPlace(0, 108, 6, 14),
    sm: 13,
    element: <CorrelationMatrix />,
  },
  {
    id: "ledger",
    title: "Ledger",
    lg: gridPlace(0, 88, 8, 19),
    md: gridPlace(0, 122, 6, 19),
    sm: 18,
    element: <TaskLedger />,
  },
  {
    id: "log",
    title: "Live log",
    lg: gridPlace(8, 88, 4, 19),
    md: gridPlace(0, 141, 6, 17),
    sm: 17,
    element: <LiveLog />,
  },
  {
    id: "what-if",
    title: "What-if",
    lg: gridPlace(0, 107, 12, 26),
    md: gridPlace(0, 158, 6, 42),
    sm: 40,
    element: <WhatIf />,
  },
];
