import { useMemo } from "react";
import { RadarChart, type RadarSeries } from "../../charts/RadarChart";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { ratio, tick } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import type { TableData } from "../../lib/tableData";
import { useLive } from "../../store/liveStore";
import { useRow, useVisibleStyles } from "../../store/selectors";

const AXES = [
  { label: "time", key: "mean_time" },
  { label: "energy", key: "mean_energy" },
  { label: "cost", key: "mean_cost" },
] as const;

/** Possible rims. Ratios above the last are cut at the rim, and the note says so. */
const RIMS = [2, 4, 8];

/** Radar chart of mean time, energy and cost relative to the oracle's. */
export function OracleRadar() {
  const styles = useVisibleStyles();
  const comparison = useLive((s) => s.comparison);
  const oracle = useRow(REFERENCE);
  const series = useMemo<RadarSeries[]>(() => {
    const rows = new Map(comparison.map((row) => [row.name, row]));
    return styles
      .filter((style) => rows.has(style.name))
      .map((style) => ({
        style,
        values: AXES.map(({ key }) => {
          const [mine, base] = [rows.get(style.name)?.[key], oracle?.[key]];
          return mine != null && base ? mine / base : null;
        }),
      }))
      .sort((a, b) => Number(a.style.reference) - Number(b.style.reference));
  }, [styles, comparison, oracle]);
  const highest = Math.max(...series.flatMap((s) => s.values.map((v) => v ?? 0)), 1);
  const lowest = Math.min(...series.flatMap((s) => s.values.map((v) => v ?? 1)), 1);
  const rim = RIMS.find((r) => r >= highest) ?? (RIMS.at(-1) as number);
  const centre = lowest >= 0.5 ? 0.5 : 0.25;
  const state = useLiveBody();
  const table = (): TableData => ({
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
  });
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
      table={table}
      bodyClass="flex flex-col"
      note={`Each axis: mean ÷ oracle’s mean, log radius, centre ${tick(centre)}×, rim ${tick(rim)}×${highest > rim ? " (cut there)" : ""}. Nearer the centre is better.`}
    >
      <RadarChart axes={AXES} series={series} centre={centre} rim={rim} rings={[1, rim === 2 ? 1.5 : rim / 2]} />
    </Panel>
  );
}
