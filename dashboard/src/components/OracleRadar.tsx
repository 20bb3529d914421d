import { RadarChart, type RadarSeries } from "../charts/RadarChart";
import { ratio, tick } from "../lib/format";
import { REFERENCE, type SchedulerStyle } from "../lib/schedulerStyle";
import { useLive } from "../store/liveStore";
import { useRow } from "../store/selectors";
import { Panel } from "./widget/Panel";
import { useLiveBody, useLiveTag } from "./widget/panelState";

const AXES = [
  { label: "time", key: "mean_time" },
  { label: "energy", key: "mean_energy" },
  { label: "cost", key: "mean_cost" },
] as const;

/** Possible rims. Ratios above the last are cut at the rim, and the note says so. */
const RIMS = [1.25, 2, 4, 8];

/** Radar chart of the schedulers' mean time, energy and cost relative to the oracle's. */
export function OracleRadar({ styles }: { styles: readonly SchedulerStyle[] }) {
  const comparison = useLive((s) => s.comparison);
  const oracle = useRow(REFERENCE);
  const series = styles
    .flatMap<RadarSeries>((style) => {
      const row = comparison.find(({ name }) => name === style.name);
      const values = AXES.map(({ key }) => (row?.[key] != null && oracle?.[key] ? row[key] / oracle[key] : null));
      return row ? [{ style, values }] : [];
    })
    .sort((a, b) => Number(a.style.reference) - Number(b.style.reference));
  const known = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const highest = Math.max(...known, 1);
  const rim = RIMS.find((r) => r >= highest) ?? (RIMS.at(-1) as number);
  const centre = rim < 2 ? 0.75 : Math.min(...known, 1) >= 0.5 ? 0.5 : 0.25;
  const state = useLiveBody();
  return (
    <Panel
      title="Radar"
      subtitle="whole run, ratio to oracle"
      state={
        state.kind === "ready" && !oracle
          ? { kind: "empty", title: "No oracle in this run", hint: "Ratios need the oracle as reference." }
          : state
      }
      tag={useLiveTag()}
      table={() => ({
        name: "radar",
        columns: [
          { key: "scheduler", label: "scheduler" },
          ...AXES.map(({ label }) => ({
            key: `${label}_ratio`,
            label,
            numeric: true,
            show: (v: unknown) => ratio(v as number),
          })),
        ],
        rows: series.map((s) => [s.style.name, ...s.values]),
      })}
      bodyClass="flex flex-col"
      note={`Each axis: mean ÷ oracle’s mean, log radius, centre ${tick(centre)}×, rim ${tick(rim)}×${highest > rim ? " (cut there)" : ""}. Nearer the centre is better.`}
    >
      <RadarChart
        axes={AXES}
        series={series}
        centre={centre}
        rim={rim}
        rings={rim < 2 ? [1] : [1, rim === 2 ? 1.5 : rim / 2]}
      />
    </Panel>
  );
}
