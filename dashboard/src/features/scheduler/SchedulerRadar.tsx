import { Radar, type RadarSeries } from "../../charts/RadarChart";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { ratio, tick } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { useLooks, useRow } from "../../store/selectors";
import { useSubject } from "./selectedScheduler";

const AXES = [
  { label: "time", key: "avg_time" },
  { label: "energy", key: "avg_energy" },
  { label: "cost", key: "avg_cost" },
] as const;
const RIMS = [1.25, 2, 4, 8];

/** This scheduler's means against the oracle's. */
export function SubjectRadar() {
  const look = useSubject();
  const row = useRow(look.name);
  const oracle = useRow(REFERENCE);
  const reference = useLooks().find((one) => one.reference);
  const state = useLiveBody();
  const values = AXES.map(({ key }) => (row?.[key] != null && oracle?.[key] ? row[key] / oracle[key] : null));
  const series: RadarSeries[] = [
    { look, values },
    ...(reference && !look.reference ? [{ look: reference, values: AXES.map(() => 1) }] : []),
  ];
  const rim = RIMS.find((r) => r >= Math.max(...values.map((v) => v ?? 0))) ?? 8;
  const centre = rim === 1.25 ? 0.75 : 0.5;
  return (
    <Panel
      title="Radar"
      subtitle="against the oracle"
      state={
        state.kind === "ready" && !oracle
          ? { kind: "empty", title: "No oracle in this run", hint: "The ratios need it as their base." }
          : state
      }
      tag={useLiveTag()}
      table={() => ({
        name: `radar-${look.name}`,
        columns: [
          { key: "axis", label: "axis" },
          { key: "ratio", label: "÷ oracle", numeric: true, show: (v) => ratio(v as number) },
        ],
        rows: AXES.map(({ label }, i) => [label, values[i] ?? null]),
      })}
      bodyClass="flex flex-col"
      note={`Each axis: mean ÷ oracle's mean, log radius, centre ${tick(centre)}×, rim ${tick(rim)}×. ${AXES.map((a, i) => `${a.label} ${ratio(values[i])}`).join(", ")}.`}
    >
      <Radar axes={AXES} series={series} centre={centre} rim={rim} rings={[1]} />
    </Panel>
  );
}
