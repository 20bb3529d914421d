import { useMemo } from "react";
import { classNames } from "../../components/ui/classNames";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { inkOn } from "../../lib/color";
import { heatColor } from "../../lib/colorScales";
import { compact, count, percent, ratio, significant } from "../../lib/format";
import { useStream } from "../../store/liveStore";
import { useTheme } from "../../store/uiStore";
import { type Cell, contour, type GpuBenefitGrid, gpuBenefitGrid, INTENSITY_BINS } from "./gpuBenefitGrid";
import { useSelectedScheduler } from "./selectedScheduler";

interface GridProps {
  heat: GpuBenefitGrid;
  title: string;
  value: (cell: Cell) => number | null;
  text: (cell: Cell) => string;
  describe: (cell: Cell) => string;
  dashed?: boolean;
}

/** Heatmap with its break-even contour: a bold left edge on the first cell of each row where the GPU is faster. */
function Grid({ heat, title, value, text, describe, dashed }: GridProps) {
  const theme = useTheme();
  const edge = contour(heat, value);
  return (
    <div className="flex min-w-0 flex-1 flex-col">
      <p className="mb-1 flex justify-between text-12 text-muted">
        {title}
        <span className="inline-flex items-center gap-2 text-faint">
          <span
            className={classNames(
              "inline-block h-3 border-ink border-l-2",
              dashed ? "border-dashed" : "border-solid",
            )}
            aria-hidden="true"
          />
          break-even
        </span>
      </p>
      <table className="min-h-0 w-full flex-1 table-fixed border-separate border-spacing-0.5 text-12">
        <caption className="sr-only">{title}</caption>
        <colgroup>
          <col style={{ width: 28 }} />
        </colgroup>
        <tbody>
          {heat.rows.map((row, i) => (
            <tr key={i}>
              <th scope="row" className="pr-1 text-right align-middle font-normal text-faint">
                <span className={i % 2 === 0 ? undefined : "sr-only"}>
                  {significant((INTENSITY_BINS - i) / INTENSITY_BINS, 2)}
                </span>
              </th>
              {row.map((cell, j) => {
                const cellValue = value(cell);
                const color =
                  cellValue === null ? undefined : heatColor(Math.max(-1, Math.min(1, cellValue)), theme);
                return (
                  <td
                    key={j}
                    title={describe(cell)}
                    className={classNames(
                      "rounded-[3px] p-0 text-center leading-4",
                      cellValue === null && "text-faint",
                      edge[i] === j &&
                        j > 0 &&
                        (dashed ? "border-ink border-l-2 border-dashed" : "border-ink border-l-2"),
                    )}
                    style={color ? { background: color, color: inkOn(color) } : undefined}
                  >
                    {text(cell)}
                  </td>
                );
              })}
            </tr>
          ))}
          <tr className="text-faint">
            <td />
            {heat.rows[0]?.map((_, j) => (
              <td key={j} className="truncate text-left">
                {j % 3 === 0 ? compact(Number((heat.edges[j] ?? 0).toPrecision(2))) : ""}
              </td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** Heatmaps of intensity against size: the chosen GPU share, and the measured GPU speed-up. */
export function GpuBenefitHeatmap() {
  const scheduler = useSelectedScheduler();
  const stream = useStream();
  const tasks = useMemo(() => stream.tasks.list(), [stream]);
  const heat = useMemo(
    () => (tasks.length ? gpuBenefitGrid(tasks, scheduler.name) : null),
    [tasks, scheduler.name],
  );
  return (
    <Panel
      title="Where the GPU is faster"
      subtitle={`intensity I (rows) against size N (log columns), newest ${count(tasks.length)} tasks`}
      state={useLiveBody({ shape: "matrix", have: tasks.length, need: 50 })}
      tag={useLiveTag()}
      table={() => ({
        name: `where-the-gpu-pays-${scheduler.name}`,
        columns: [
          { key: "intensity_from", label: "intensity from", numeric: true },
          { key: "size_from", label: "size from", numeric: true },
          { key: "tasks", label: "tasks", numeric: true },
          { key: "mean_gpu_share", label: "mean GPU share", numeric: true },
          { key: "gpu_speed_up", label: "GPU speed-up", numeric: true },
        ],
        rows: (heat?.rows ?? []).flatMap((row, i) =>
          row.map((cell, j) => [
            (INTENSITY_BINS - 1 - i) / INTENSITY_BINS,
            heat?.edges[j] ?? null,
            cell.n,
            cell.share,
            cell.speedup === null ? null : 2 ** cell.speedup,
          ]),
        ),
      })}
      bodyClass="flex flex-col gap-4 md:flex-row"
      note="Left: mean share given to the GPU, in per cent and as colour (amber CPU, cyan GPU). Right: CPU time ÷ GPU time, from the parts that ran. The break-even edge marks the first cell of each row where the GPU is faster."
    >
      {heat ? (
        <>
          <Grid
            heat={heat}
            title="Chosen: mean GPU share, %"
            value={(cell) => (cell.share === null ? null : 2 * cell.share - 1)}
            text={(cell) => (cell.share === null ? "–" : (100 * cell.share).toFixed(0))}
            describe={(cell) => `${count(cell.n)} tasks, mean GPU share ${percent(cell.share)}`}
          />
          <Grid
            heat={heat}
            title="Measured: GPU speed-up, ×"
            value={(cell) => (cell.speedup === null ? null : cell.speedup / 2)}
            text={(cell) => (cell.speedup === null ? "–" : significant(2 ** cell.speedup, 2))}
            describe={(cell) =>
              cell.speedup === null ? "no task" : `${ratio(2 ** cell.speedup)} as fast on the GPU`
            }
            dashed
          />
        </>
      ) : null}
    </Panel>
  );
}
