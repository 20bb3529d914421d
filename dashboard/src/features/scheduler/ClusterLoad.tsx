import { useMemo } from "react";
import { Sparkline } from "../../charts/Sparkline";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { TOKENS } from "../../lib/designTokens";
import { device as deviceName, percent, time } from "../../lib/format";
import { mean } from "../../lib/statistics";
import { useLive, useStream } from "../../store/liveStore";
import { boundsOf, useDevices } from "../../store/selectors";
import { useTheme, useUi } from "../../store/uiStore";
import { useSelectedScheduler } from "./selectedScheduler";

function quantile(values: readonly number[], share: number): number | null {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

/** Utilization and backlog of each device of this scheduler's cluster. */
export function ClusterLoad() {
  const scheduler = useSelectedScheduler();
  const stream = useStream();
  const now = useLive((s) => s.virtualTime);
  const devices = useDevices();
  const range = useUi((s) => s.range);
  const tokens = TOKENS[useTheme()];
  const { from, to } = boundsOf(range, now);
  const rows = useMemo(
    () =>
      devices.map((device) => ({
        device,
        load: stream.utilization.busyShare(scheduler.name, device.name, from).filter((p) => p.t <= to),
        backlog: stream.utilization.backlog(scheduler.name, device.name, from).filter((p) => p.t <= to),
      })),
    [stream, devices, scheduler.name, from, to],
  );
  const start = Math.max(from, rows[0]?.load[0]?.t ?? from);
  const cpus = devices.filter((d) => d.kind === "cpu").length;
  return (
    <Panel
      title="Virtual cluster load"
      subtitle="busy share of each update's interval, axes 0 to 100 %"
      state={useLiveBody({ shape: "lines" })}
      tag={useLiveTag()}
      table={() => ({
        name: `load-${scheduler.name}`,
        columns: [
          { key: "t_s", label: "time, s", numeric: true },
          ...rows.flatMap(({ device }) => [
            { key: `${device.name}_load`, label: `${device.name} load`, numeric: true },
            { key: `${device.name}_backlog_s`, label: `${device.name} backlog, s`, numeric: true },
          ]),
        ],
        rows: (rows[0]?.load ?? []).map((point, i) => [
          point.t,
          ...rows.flatMap((row) => [row.load[i]?.value ?? null, row.backlog[i]?.value ?? null]),
        ]),
      })}
      bodyClass="flex flex-col"
    >
      <div
        className="grid min-h-0 flex-1 grid-cols-[44px_minmax(0,1fr)_52px_60px] gap-x-2 md:grid-cols-[72px_minmax(0,1fr)_64px_72px] md:gap-x-3"
        style={{
          gridTemplateRows: `16px repeat(${rows.length}, minmax(24px,1fr)) 16px`,
        }}
      >
        <span />
        <span />
        <span className="whitespace-nowrap text-right text-muted">
          <span className="max-md:hidden">mean </span>load
        </span>
        <span className="whitespace-nowrap text-right text-muted">
          <span className="max-md:sr-only">backlog </span>p95
        </span>
        {rows.map(({ device, load, backlog }) => (
          <div key={device.name} className="contents">
            <span className="flex items-center">{deviceName(device.name, cpus)}</span>
            <Sparkline
              points={load}
              from={start}
              to={to}
              color={device.kind === "cpu" ? tokens.cpu : tokens.gpu}
              label={`${scheduler.label}, ${device.name}`}
              className="my-1"
            />
            <span className="flex items-center justify-end">
              {load.length ? percent(mean(load.map((p) => p.value))) : "–"}
            </span>
            <span className="flex items-center justify-end text-muted">
              {time(
                quantile(
                  backlog.map((p) => p.value),
                  0.95,
                ),
              )}
            </span>
          </div>
        ))}
        <span />
        <span className="flex justify-between whitespace-nowrap text-faint">
          <span>{`${start.toFixed(0)} s`}</span>
          <span>{`${to.toFixed(0)} s`}</span>
        </span>
      </div>
    </Panel>
  );
}
