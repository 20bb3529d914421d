import { device as deviceName, tick } from "../../lib/format";

/** Devices of a decision: "CPU + GPU 2" for a split task, otherwise one name. */
export function deviceWords(device: string, fraction: number | null): string {
  const name = deviceName(device);
  return fraction !== null && fraction > 0 && fraction < 1 ? `CPU + ${name}` : name;
}

/** GPU share of a task as a bar and a number. */
export function GpuShareBar({ share }: { share: number | null }) {
  if (share === null) return "–";
  return (
    <span className="inline-flex items-center justify-end gap-2">
      <span className="marks flex h-1 w-12 gap-px overflow-hidden rounded-full" aria-hidden="true">
        {share > 0 ? <i className="rounded-full bg-gpu" style={{ width: `${share * 100}%` }} /> : null}
        {share < 1 ? <i className="flex-1 rounded-full bg-cpu opacity-60" /> : null}
      </span>
      <span className="w-10">{tick(share)}</span>
    </span>
  );
}
