import { TriangleAlert } from "lucide-react";
import { useId } from "react";
import type { RunPreview } from "../../client/models";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { significant } from "../../lib/format";
import { useStylesOf } from "../../store/schedulerStyles";
import { Problem, Section } from "./fields";

const MAX = 1.2;
const place = (load: number): string => `calc(8px + ${Math.min(1, load / MAX)} * (100% - 16px))`;

interface LoadSliderProps {
  load: number;
  onChange: (load: number) => void;
  preview: RunPreview | undefined;
  error: string | null;
}

/** Slider for the offered load, with the loads at which schedulers saturate under it. */
export function LoadSlider({ load, onChange, preview, error }: LoadSliderProps) {
  const id = useId();
  const limits = preview?.limits ?? [];
  const styles = useStylesOf(limits.map((limit) => limit.scheduler));
  const over = limits.filter((limit) => load > limit.load);
  const names = over.map(
    (limit) => `${styles.get(limit.scheduler)?.label ?? limit.scheduler} from ${significant(limit.load, 2)}`,
  );
  return (
    <Section
      title="Load"
      note={
        preview?.capacity
          ? `${significant(load * preview.capacity)} of ${significant(preview.capacity)} tasks/s`
          : null
      }
    >
      <label htmlFor={id} className="flex items-baseline justify-between text-12 text-muted">
        Share of the machine's capacity
        <output htmlFor={id} className="font-semibold text-14 text-ink">
          {load.toFixed(2)}
        </output>
      </label>
      <div className="relative pb-5">
        <input
          id={id}
          type="range"
          min={0.05}
          max={MAX}
          step={0.01}
          value={load}
          aria-valuetext={`${load.toFixed(2)} of capacity`}
          onChange={(event) => onChange(Number(event.target.value))}
          className="h-8 w-full cursor-pointer accent-[var(--accent)]"
        />
        <i aria-hidden="true" className="absolute top-1 h-6 w-px bg-muted" style={{ left: place(1) }} />
        <span className="absolute bottom-0 -translate-x-1/2 text-12 text-muted" style={{ left: place(1) }}>
          capacity
        </span>
        {limits.map((limit) => {
          const style = styles.get(limit.scheduler);
          return style ? (
            <span
              key={limit.scheduler}
              title={`${style.label} saturates at ${significant(limit.load, 2)} of capacity`}
              className="absolute top-7 -translate-x-1/2"
              style={{ left: place(limit.load) }}
            >
              <SchedulerGlyph style={style} size={11} />
            </span>
          ) : null;
        })}
      </div>
      {load >= 1 ? (
        <Notice text={`${load.toFixed(2)} of capacity: every queue grows without end`} />
      ) : over.length ? (
        <Notice text={`${load.toFixed(2)} of capacity saturates ${names.join(", ")}`} />
      ) : (
        <p className="text-12 text-faint">
          {limits.length
            ? "Symbols mark the load at which schedulers that ignore queues saturate."
            : "Others follow the queues up to capacity."}
        </p>
      )}
      <Problem text={error} />
    </Section>
  );
}

function Notice({ text }: { text: string }) {
  return (
    <p className="flex gap-2 rounded-control bg-warn/10 px-3 py-1.5 text-12">
      <TriangleAlert size={14} className="mt-0.5 shrink-0 text-warn" aria-hidden="true" />
      {text}
    </p>
  );
}
