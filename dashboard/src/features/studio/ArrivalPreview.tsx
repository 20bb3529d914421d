import type { RunPreview, WorkloadShape } from "../../client/models";
import { Button } from "../../components/ui/Button";
import { compact, significant, time } from "../../lib/format";
import { MiniChart, Section } from "./fields";

/** Arrivals over time with the machine's capacity, and histograms of sizes and intensities. */
export function ArrivalPreview({
  shape,
  capacity,
  rate,
  title,
}: {
  shape: WorkloadShape;
  capacity: number | null;
  /** Tasks per second on average; null for that of the tasks shown. */
  rate: number | null;
  title: string;
}) {
  const bin = shape.seconds / shape.arrivals.length;
  const rates = shape.arrivals.map((n) => (bin > 0 ? n / bin : n));
  const peak = Math.max(...rates);
  const mean = rate ?? rates.reduce((sum, one) => sum + one, 0) / rates.length;
  // The capacity is drawn where it does not press the arrivals to the ground.
  const top = capacity !== null && capacity < 3 * peak ? Math.max(peak, capacity) : peak;
  const line = capacity !== null && capacity <= top ? 1 - capacity / top : null;
  return (
    <Section title="What will arrive" note={title}>
      <div className="relative" style={{ height: 96 }}>
        <div className="absolute inset-x-0 bottom-0" style={{ height: `${(100 * peak) / top}%` }}>
          <MiniChart
            area
            values={shape.arrivals}
            label={`Arrivals: ${significant(mean)} tasks per second on average, ${significant(peak)} at the peak`}
            className="!h-full"
          />
        </div>
        {line !== null ? (
          <div className="absolute inset-x-0 border-muted border-t border-dashed" style={{ top: `${100 * line}%` }}>
            <span className="bg-panel pr-1 text-12 text-muted">capacity {significant(capacity)} tasks/s</span>
          </div>
        ) : null}
      </div>
      <p className="flex flex-wrap justify-between gap-x-3 text-12 text-muted">
        <span>0 s</span>
        <span>
          {significant(mean)} tasks/s on average, {significant(peak)} at the peak
        </span>
        <span>{time(shape.seconds)}</span>
      </p>
      <div className="mt-2 grid grid-cols-2 gap-4 text-12 text-faint">
        <div>
          <MiniChart values={shape.sizes} label="Sizes" />
          <p className="flex justify-between">
            <span>sizes {compact(shape.size_low)}</span>
            <span>{compact(shape.size_high)}</span>
          </p>
        </div>
        <div>
          <MiniChart values={shape.intensities} label="Intensities" />
          <p className="flex justify-between">
            <span>intensity 0</span>
            <span>1</span>
          </p>
        </div>
      </div>
    </Section>
  );
}

interface TraceLoadProps {
  offered: number | null;
  load: number | null;
  platform: RunPreview["platform"]["name"];
  /** Whether the load is that of another machine than the chosen one. */
  unknownMachine: boolean;
  onLoad: (load: number | null) => void;
}

const RESCALED = 0.8;

/** Load that a trace offers to the machine, with the way out where it is too much. */
export function TraceLoad({ offered, load, platform, unknownMachine, onLoad }: TraceLoadProps) {
  if (offered === null)
    return (
      <Section title="Offered load">
        <p className="text-12 text-muted">All tasks arrive at once, or depend on each other: there is no rate.</p>
      </Section>
    );
  const at = (value: number) => `${(100 * (Math.log10(Math.min(20, Math.max(0.05, value))) + 1.31)) / 2.62}%`;
  const shown = load ?? offered;
  const over = shown > 1;
  return (
    <Section title="Offered load" note="log scale">
      <div className="relative mt-5 mb-6 h-2 rounded bg-track">
        <i
          className="absolute inset-y-0 left-0 rounded"
          style={{ width: at(Math.min(shown, 1)), background: "var(--bar)" }}
        />
        {over ? (
          <i
            className="absolute inset-y-0 bg-error/60"
            style={{ left: at(1), width: `calc(${at(shown)} - ${at(1)})` }}
          />
        ) : null}
        <i aria-hidden="true" className="absolute -inset-y-1 w-px bg-ink" style={{ left: at(1) }} />
        <span className="absolute -top-5 -translate-x-1/2 text-12 text-muted" style={{ left: at(1) }}>
          capacity
        </span>
        <span className="absolute top-3 -translate-x-1/2 whitespace-nowrap text-12" style={{ left: at(shown) }}>
          {significant(shown)}×
        </span>
      </div>
      {offered > 1 || load !== null ? (
        <p className="flex flex-wrap items-center gap-2 rounded-control bg-warn/10 px-3 py-2 text-12">
          <span className="min-w-0 flex-1">
            {load === null ? (
              <>
                <b className="font-semibold">
                  {significant(offered)}× what {platform} can run:
                </b>{" "}
                every queue grows.
              </>
            ) : (
              <>Arrivals are spread {significant(offered / load)} times as far apart; sizes stay.</>
            )}
          </span>
          {load === null ? (
            <Button variant="primary" onClick={() => onLoad(RESCALED)}>
              Rescale to {RESCALED}
            </Button>
          ) : (
            <Button onClick={() => onLoad(null)}>Keep {significant(offered)}×</Button>
          )}
        </p>
      ) : (
        <p className="text-12 text-muted">Fits {platform}.</p>
      )}
      {unknownMachine ? (
        <p className="mt-1 text-12 text-muted">
          This is the load on {platform}. For a machine of your own it is computed once the trace is stored.
        </p>
      ) : null}
    </Section>
  );
}
