/** Charts of a simulated cluster over one time axis, and the distribution of a forecast. */
import { useCallback } from "react";
import { ChartCanvas, type Paint } from "../../charts/ChartCanvas";
import type { ClusterReport, JobForecast } from "./useClusterLog";

/** Colours of users: apart from those of the schedulers. */
export const USER_COLORS = ["#6F9BF0", "#4FAE86", "#A98BE8", "#D98299", "#5FAFC4", "#8A94A8"];
const LEFT = 8;
const RIGHT = 8;

const mix = (from: string, to: string, share: number): string => {
  const channel = (at: number) => {
    const [a, b] = [from, to].map((color) => Number.parseInt(color.slice(at, at + 2), 16));
    return Math.round((a ?? 0) + ((b ?? 0) - (a ?? 0)) * share);
  };
  return `rgb(${channel(1)} ${channel(3)} ${channel(5)})`;
};

export function HeatMap({ report, onNode }: { report: ClusterReport; onNode: (node: number) => void }) {
  const { rows, nodes_per_row: each } = report.allocation;
  const chosen = Math.floor(report.node.index / each);
  const draw = useCallback(
    ({ context, size, tokens }: Paint) => {
      const height = size.height / rows.length;
      const width = (size.width - LEFT - RIGHT) / (rows[0]?.length || 1);
      rows.forEach((row, y) => {
        row.forEach((share, x) => {
          context.fillStyle = mix(tokens.track, tokens.gpu, share);
          context.fillRect(LEFT + x * width, y * height, width + 0.5, Math.max(height - 1, 1));
        });
      });
      context.strokeStyle = tokens.accent;
      context.lineWidth = 1.5;
      context.strokeRect(LEFT, chosen * height, size.width - LEFT - RIGHT, Math.max(height - 1, 1));
    },
    [rows, chosen],
  );
  const move = (by: number) => onNode(Math.min(Math.max(report.node.index + by * each, 0), report.nodes - 1));
  return (
    <ChartCanvas
      draw={draw}
      label={`Allocation of ${report.nodes} nodes over time; up and down choose a node`}
      className="h-64 md:h-72"
      onPointerDown={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const row = Math.floor(((event.clientY - box.top) / box.height) * rows.length);
        onNode(Math.min(row * each, report.nodes - 1));
      }}
      onKeyDown={(event) => {
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      }}
    />
  );
}

export function NodeGpus({ report }: { report: ClusterReport }) {
  const { node, seconds, queue } = report;
  const draw = useCallback(
    ({ context, size, tokens }: Paint) => {
      const end = seconds[seconds.length - 1] || 1;
      const lanes = Math.max(node.gpus, 1);
      const height = size.height / lanes;
      const x = (time: number) => LEFT + (time / end) * (size.width - LEFT - RIGHT);
      context.fillStyle = tokens.track;
      for (let lane = 0; lane < lanes; lane++)
        context.fillRect(LEFT, lane * height, size.width - LEFT - RIGHT, height - 2);
      node.begin.forEach((begin, at) => {
        const user = queue.users.indexOf(node.user[at] ?? "");
        context.fillStyle = USER_COLORS[user < 0 ? USER_COLORS.length - 1 : user] as string;
        const width = Math.max(x(node.end[at] ?? begin) - x(begin) - 0.5, 0.5);
        for (const gpu of node.held[at] ?? []) context.fillRect(x(begin), gpu * height, width, height - 2);
      });
    },
    [node, seconds, queue.users],
  );
  return (
    <ChartCanvas draw={draw} label={`${node.gpus} GPUs of ${node.name} over time, by user`} className="h-28" />
  );
}

export function FragmentationLine({ report }: { report: ClusterReport }) {
  const draw = useCallback(
    ({ context, size, tokens }: Paint) => {
      const found = report.fragmentation;
      if (!found) return;
      const top = Math.max(...found.lost, ...found.bound, 1);
      const line = (values: readonly number[], color: string, dash: number[]) => {
        context.strokeStyle = color;
        context.lineWidth = 1.5;
        context.setLineDash(dash);
        context.beginPath();
        values.forEach((value, at) => {
          const x = LEFT + ((at + 0.5) / values.length) * (size.width - LEFT - RIGHT);
          context.lineTo(x, size.height - 4 - (value / top) * (size.height - 20));
        });
        context.stroke();
        context.setLineDash([]);
      };
      line(found.bound, tokens.muted, [4, 3]);
      line(found.lost, tokens.accent, []);
      context.fillStyle = tokens.faint;
      context.fillText(`${top.toPrecision(3)} GPUs`, LEFT + 2, 12);
    },
    [report.fragmentation],
  );
  return <ChartCanvas draw={draw} label="Fragmented GPUs over time, dashed: packed perfectly" className="h-24" />;
}

export function QueueByUser({ report }: { report: ClusterReport }) {
  const draw = useCallback(
    ({ context, size, tokens }: Paint) => {
      const { asked } = report.queue;
      const columns = asked[0]?.length ?? 0;
      const totals = Array.from({ length: columns }, (_, at) =>
        asked.reduce((sum, user) => sum + (user[at] ?? 0), 0),
      );
      const top = Math.max(...totals, 1);
      const width = (size.width - LEFT - RIGHT) / Math.max(columns, 1);
      const below = new Array<number>(columns).fill(0);
      asked.forEach((user, number) => {
        context.fillStyle = USER_COLORS[number] as string;
        user.forEach((value, at) => {
          const from = below[at] ?? 0;
          const height = (value / top) * (size.height - 16);
          const y = size.height - (from / top) * (size.height - 16) - height;
          context.fillRect(LEFT + at * width, y, width + 0.5, height);
          below[at] = from + value;
        });
      });
      context.fillStyle = tokens.faint;
      context.fillText(top.toPrecision(3), LEFT + 2, 12);
    },
    [report.queue],
  );
  return <ChartCanvas draw={draw} label="What waiting jobs ask for over time, by user" className="h-32" />;
}

export function ForecastFan({ forecast }: { forecast: JobForecast }) {
  const draw = useCallback(
    ({ context, size, tokens }: Paint) => {
      const [low = 0, high = 0] = forecast.interval;
      const end = Math.max(high, ...forecast.quantiles, 1) * 1.1;
      const x = (wait: number) => LEFT + (wait / end) * (size.width - LEFT - RIGHT);
      const y = (level: number) => size.height - 18 - level * (size.height - 30);
      context.globalAlpha = 0.25;
      context.fillStyle = tokens.lead;
      context.fillRect(x(low), y(1), Math.max(x(high) - x(low), 2), y(0) - y(1));
      context.globalAlpha = 1;
      context.strokeStyle = tokens.text;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x(0), y(0));
      forecast.quantiles.forEach((wait, at) => {
        context.lineTo(x(wait), y(forecast.levels[at] ?? 0));
      });
      context.stroke();
      context.strokeStyle = tokens.baseline;
      context.beginPath();
      context.moveTo(LEFT, y(0));
      context.lineTo(size.width - RIGHT, y(0));
      context.stroke();
    },
    [forecast],
  );
  return (
    <ChartCanvas
      draw={draw}
      label="Chance that the job has started, over its wait; the band is the 90 % interval"
      className="h-40"
    />
  );
}
