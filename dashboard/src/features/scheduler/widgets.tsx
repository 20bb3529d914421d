/** Widgets of the scheduler view and their default places, in rows of 24 px. */
import { OracleRadar } from "../../components/OracleRadar";
import { gridPlace, type WidgetDef } from "../../components/widget/WidgetGrid";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { ClusterLoad } from "./ClusterLoad";
import { GpuBenefitHeatmap } from "./GpuBenefitHeatmap";
import { GpuCpuSplit } from "./GpuCpuSplit";
import { ModelInsight } from "./ModelInsight";
import { PredictedVsActual } from "./PredictedVsActual";
import { RecentDecisions } from "./RecentDecisions";
import { RegretOverTime } from "./RegretOverTime";
import { useSelectedScheduler } from "./selectedScheduler";

function SelectedRadar() {
  const own = useSelectedScheduler();
  const reference = useSchedulerStyles().find((style) => style.reference && style.name !== own.name);
  return <OracleRadar styles={reference ? [own, reference] : [own]} />;
}

export const SCHEDULER_WIDGETS: readonly WidgetDef[] = [
  {
    id: "load",
    title: "Virtual cluster load",
    lg: gridPlace(0, 0, 8, 15),
    md: gridPlace(0, 0, 6, 14),
    sm: 14,
    element: <ClusterLoad />,
  },
  {
    id: "radar",
    title: "Radar",
    lg: gridPlace(8, 0, 4, 15),
    md: gridPlace(0, 14, 3, 15),
    sm: 15,
    element: <SelectedRadar />,
  },
  {
    id: "where",
    title: "Where the GPU is faster",
    lg: gridPlace(0, 15, 8, 17),
    md: gridPlace(0, 29, 6, 17),
    sm: 28,
    element: <GpuBenefitHeatmap />,
  },
  {
    id: "split",
    title: "GPU / CPU split",
    lg: gridPlace(8, 15, 4, 17),
    md: gridPlace(3, 14, 3, 15),
    sm: 17,
    element: <GpuCpuSplit />,
  },
  {
    id: "regret",
    title: "Regret over time",
    lg: gridPlace(0, 32, 6, 16),
    md: gridPlace(0, 46, 6, 14),
    sm: 14,
    element: <RegretOverTime />,
  },
  {
    id: "predicted",
    title: "Predicted vs actual",
    lg: gridPlace(6, 32, 3, 16),
    md: gridPlace(0, 60, 3, 16),
    sm: 14,
    element: <PredictedVsActual />,
  },
  {
    id: "learner",
    title: "Model",
    lg: gridPlace(9, 32, 3, 16),
    md: gridPlace(3, 60, 3, 16),
    sm: 14,
    element: <ModelInsight />,
  },
  {
    id: "decisions",
    title: "Recent decisions",
    lg: gridPlace(0, 48, 12, 16),
    md: gridPlace(0, 76, 6, 16),
    sm: 16,
    element: <RecentDecisions />,
  },
];
