import { useMemo } from "react";
import { Sparkline } from "../../charts/Sparkline";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { TOKENS } from "../../lib/designTokens";
import { device as deviceName, percent, time } from "../../lib/format";
import { busyShares, useDeviceLoad, windowOf } from "../../store/deviceLoad";
import { useLive, useStream } from "../../store/liveStore";
import { boundsOf, useDevices } from "../../store/selectors";
import { useTheme, useUi } from "../../store/uiStore";
import { useSelectedScheduler } from "./selectedScheduler";

const COLUMNS = 120;

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
  const span = boundsOf(range, now);
  const { data } = useDeviceLoad(scheduler.name, windowOf(range), COLUMNS);
  const rows = useMemo(() => {
    return devices.map((device) => {
      const { points, mean } = busyShares(data, scheduler.name, [device]);
      return {
        device,
        load: points,
        mean,
        backlog: stream.utilization.backlog(scheduler.name, device.name, span.from).filter((p) => p.t <= span.to),
      };
    });
  }, [data, stream, devices, scheduler.name, span.from, span.to]);
  const start = data?.start ?? 0;
  const to = data?.known_to ?? 0;
  const cpus = devices.filter((d) => d.kind === "cpu").length;
  return (
    <Panel
      title="Virtual cluster load"
      subtitle="exact busy share, axes 0 to 100 %; backlog since the page was opened"
      state={useLiveBody({ shape: "lines" })}
      tag={useLiveTag()}
      table={() => ({
        name: `load-${scheduler.name}`,
        columns: [
          { key: "t_s", label: "time, s", numeric: true },
          ...rows.map(({ device }) => ({
            key: `${device.name}_load`,
            label: `${deviceName(device.name, cpus)} load`,
            numeric: true,
          })),
        ],
        rows: (rows[0]?.load ?? []).map((point, i) => [point.t, ...rows.map((row) => row.load[i]?.value ?? null)]),
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
        {rows.map(({ device, load, mean, backlog }) => (
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
            <span className="flex items-center justify-end">{percent(mean)}</span>
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
