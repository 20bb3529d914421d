import { RadarChart, type RadarSeries } from "../../charts/RadarChart";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { ratio, tick } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useRow } from "../../store/selectors";
import { useSelectedScheduler } from "./selectedScheduler";

const AXES = [
  { label: "time", key: "mean_time" },
  { label: "energy", key: "mean_energy" },
  { label: "cost", key: "mean_cost" },
] as const;
const RIMS = [1.25, 2, 4, 8];

/** Radar chart of this scheduler's means relative to the oracle's. */
export function SchedulerRadar() {
  const scheduler = useSelectedScheduler();
  const row = useRow(scheduler.name);
  const oracle = useRow(REFERENCE);
  const reference = useSchedulerStyles().find((one) => one.reference);
  const state = useLiveBody();
  const values = AXES.map(({ key }) => (row?.[key] != null && oracle?.[key] ? row[key] / oracle[key] : null));
  const series: RadarSeries[] = [
    { style: scheduler, values },
    ...(reference && !scheduler.reference ? [{ style: reference, values: AXES.map(() => 1) }] : []),
  ];
  const rim = RIMS.find((r) => r >= Math.max(...values.map((v) => v ?? 0))) ?? 8;
  const centre = rim === 1.25 ? 0.75 : 0.5;
  return (
    <Panel
      title="Radar"
      subtitle="against the oracle"
      state={
        state.kind === "ready" && !oracle
          ? { kind: "empty", title: "No oracle in this run", hint: "Ratios need the oracle as reference." }
          : state
      }
      tag={useLiveTag()}
      table={() => ({
        name: `radar-${scheduler.name}`,
        columns: [
          { key: "axis", label: "axis" },
          { key: "ratio", label: "÷ oracle", numeric: true, show: (v) => ratio(v as number) },
        ],
        rows: AXES.map(({ label }, i) => [label, values[i] ?? null]),
      })}
      bodyClass="flex flex-col"
      note={`Each axis: mean ÷ oracle's mean, log radius, centre ${tick(centre)}×, rim ${tick(rim)}×. ${AXES.map((a, i) => `${a.label} ${ratio(values[i])}`).join(", ")}.`}
    >
      <RadarChart axes={AXES} series={series} centre={centre} rim={rim} rings={[1]} />
    </Panel>
  );
}
