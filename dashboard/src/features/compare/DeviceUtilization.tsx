import { TriangleAlert } from "lucide-react";
import { useMemo, useState } from "react";
import { Sparkline } from "../../charts/Sparkline";
import { StackedUtilization } from "../../charts/StackedUtilization";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { count, device as deviceName, percent, time } from "../../lib/format";
import { shortLabel } from "../../lib/schedulerStyle";
import type { TableData } from "../../lib/tableData";
import type { SeriesPoint } from "../../lib/timeSeries";
import { busyShares, useDeviceLoad, windowOf } from "../../store/deviceLoad";
import { useLive } from "../../store/liveStore";
import { useDevices, useFocus, useVisibleStyles } from "../../store/selectors";
import { useUi } from "../../store/uiStore";

const COLUMNS = 60;
/** Backlog in seconds from which a queue counts as long. */
const LONG_QUEUE = 30;

type Mode = "schedulers" | "devices" | "total";

interface Cell {
  label: string;
  points: readonly SeriesPoint[];
  /** Busy share of the whole window. */
  mean: number | null;
  color: string;
}
interface Row {
  key: string;
  head: React.ReactNode;
  cells: Cell[];
}

function usePulse(mode: Mode): { rows: Row[]; columns: string[]; from: number; to: number } {
  const range = useUi((s) => s.range);
  const styles = useVisibleStyles();
  const devices = useDevices();
  const focus = useFocus();
  const { data: load } = useDeviceLoad(null, windowOf(range), COLUMNS);
  return useMemo(() => {
    const from = load?.start ?? 0;
    const to = load?.known_to ?? 0;
    const cpus = devices.filter((d) => d.kind === "cpu");
    const others = devices.filter((d) => d.kind !== "cpu");
    if (mode === "schedulers") {
      const groups = [
        { label: cpus.length > 1 ? `CPU, mean of ${cpus.length}` : "CPU", list: cpus },
        { label: others.length > 1 ? `${kinds(others)}, mean of ${others.length}` : kinds(others), list: others },
      ].filter((group) => group.list.length);
      const rows = styles.map((style) => ({
        key: style.name,
        head: (
          <>
            <SchedulerGlyph style={style} />
            <span className="truncate max-md:sr-only" title={style.label}>
              {shortLabel(style)}
            </span>
          </>
        ),
        cells: groups.map(({ label, list }) => ({
          label: `${style.label}, ${label}`,
          color: style.color,
          ...busyShares(load, style.name, list),
        })),
      }));
      return { rows, columns: groups.map((group) => group.label), from, to };
    }
    const rows = devices.map((device) => ({
      key: device.name,
      head: <span>{deviceName(device.name, cpus.length)}</span>,
      cells: [
        {
          label: `${focus?.label}, ${device.name}`,
          color: focus?.color ?? "#888888",
          ...busyShares(load, focus?.name ?? "", [device]),
        },
      ],
    }));
    return { rows, columns: [focus?.label ?? ""], from, to };
  }, [load, mode, styles, devices, focus]);
}

const kinds = (devices: readonly { kind: string }[]): string =>
  [...new Set(devices.map((d) => d.kind.toUpperCase()))].join(", ");

/** Schedulers with a long queue, and the longest backlog. */
function useLongQueues(): { names: string[]; worst: number } {
  const backlogs = useLive((s) => s.backlogs);
  const styles = useVisibleStyles();
  const long = styles.filter((style) => Math.max(0, ...Object.values(backlogs[style.name] ?? {})) > LONG_QUEUE);
  const worst = Math.max(0, ...long.flatMap((style) => Object.values(backlogs[style.name] ?? {})));
  return { names: long.map((style) => style.label), worst };
}

function QueueWarning() {
  const { names, worst } = useLongQueues();
  if (!names.length) return null;
  return (
    <span
      title={`Backlog of more than ${LONG_QUEUE} s: ${names.join(", ")}; longest ${time(worst)}`}
      className="inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border border-warn/50 px-2 text-warn"
    >
      <TriangleAlert size={13} aria-hidden="true" />
      {count(names.length)} long {names.length > 1 ? "queues" : "queue"}
    </span>
  );
}

/** Utilization of the devices as small multiples or as a stacked total. */
export function DeviceUtilization() {
  const [mode, setMode] = useState<Mode>("schedulers");
  const { rows, columns, from, to } = usePulse(mode);
  const narrow = useMediaQuery("(max-width: 767px)");
  const table = (): TableData => ({
    name: "utilization",
    columns: [
      { key: "t_s", label: "time", numeric: true, show: (v) => `${(v as number).toFixed(1)} s` },
      ...rows.flatMap((row) =>
        row.cells.map((cell) => ({
          key: cell.label,
          label: cell.label,
          numeric: true,
          show: (v: unknown) => percent(v as number),
        })),
      ),
    ],
    rows: (rows[0]?.cells[0]?.points ?? []).map((point, i) => [
      point.t,
      ...rows.flatMap((row) => row.cells.map((cell) => cell.points[i]?.value ?? null)),
    ]),
  });
  return (
    <Panel
      title="Device utilization"
      subtitle={`busy share of ${from.toFixed(0)} to ${to.toFixed(0)} s, axes 0 to 100 %`}
      state={useLiveBody({ shape: "lines" })}
      tag={useLiveTag()}
      table={table}
      actions={<QueueWarning />}
      bodyClass="flex flex-col"
    >
      <div className="mb-2" data-testid="pulse-window" data-start={from} data-known-to={to}>
        <SegmentedControl
          label="Show"
          value={mode}
          onChange={setMode}
          choices={["schedulers", "devices", "total"]}
        />
      </div>
      {mode === "total" ? (
        <StackedUtilization
          rows={rows.map((row) => ({ key: row.key, points: row.cells[0]?.points ?? [] }))}
          from={from}
          to={to}
        />
      ) : (
        <div
          className="grid min-h-0 flex-1 gap-x-2 md:gap-x-3"
          style={{
            gridTemplateColumns: `${narrow && mode === "schedulers" ? "14px" : "minmax(56px,104px)"} repeat(${columns.length}, minmax(0,1fr) 48px)`,
            gridTemplateRows: `16px repeat(${rows.length}, minmax(24px,1fr)) 16px`,
          }}
        >
          <span />
          {columns.map((column) => (
            <span key={column} className="col-span-2 truncate text-muted">
              {column}
            </span>
          ))}
          {rows.map((row) => (
            <div key={row.key} className="contents">
              <span className="flex min-w-0 items-center gap-2">{row.head}</span>
              {row.cells.map((cell) => (
                <div key={cell.label} className="contents">
                  <Sparkline
                    points={cell.points}
                    from={from}
                    to={to}
                    color={cell.color}
                    label={cell.label}
                    className="my-1"
                  />
                  <span
                    className="flex items-center justify-end whitespace-nowrap"
                    data-busy={cell.mean}
                    data-cell={cell.label}
                  >
                    {percent(cell.mean)}
                  </span>
                </div>
              ))}
            </div>
          ))}
          <span />
          {columns.map((column) => (
            <div key={column} className="contents text-faint">
              <span className="flex justify-between text-faint">
                <span>{from.toFixed(0)} s</span>
                <span>{to.toFixed(0)} s</span>
              </span>
              <span />
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}
