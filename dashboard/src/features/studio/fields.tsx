import { CircleAlert } from "lucide-react";
import { type InputHTMLAttributes, type ReactNode, useId } from "react";
import { classNames } from "../../components/ui/classNames";

/** Error of a field, beside it. */
export function Problem({ id, text }: { id?: string; text: string | null }) {
  if (!text) return null;
  return (
    <p id={id} role="alert" className="mt-1 flex gap-1.5 break-words text-12 text-error">
      <CircleAlert size={14} className="mt-0.5 shrink-0" aria-hidden="true" />
      <span className="min-w-0">{text}</span>
    </p>
  );
}

export function Section({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className="min-w-0" aria-label={title}>
      <h3 className="mb-2 font-semibold text-14">
        {title} {note ? <span className="font-normal text-12 text-muted">{note}</span> : null}
      </h3>
      {children}
    </section>
  );
}

export const INPUT =
  "h-10 w-full min-w-0 rounded-control border border-control bg-transparent px-2.5 text-12 text-ink placeholder:text-faint aria-invalid:border-error md:h-8";

interface FieldProps extends InputHTMLAttributes<HTMLInputElement> {
  label: string;
  error?: string | null;
}

/** Text field with its label above and its error below. */
export function Field({ label, error = null, className, ...rest }: FieldProps) {
  const id = useId();
  return (
    <div className={classNames("min-w-0", className)}>
      <label htmlFor={id} className="mb-1 block text-12 text-muted">
        {label}
      </label>
      <input
        id={id}
        className={INPUT}
        {...(error ? { "aria-invalid": true, "aria-describedby": `${id}-error` } : {})}
        {...rest}
      />
      <Problem id={`${id}-error`} text={error} />
    </div>
  );
}

/** Bars or an area of counts without axes; its label says what they show. */
export function MiniChart({
  values,
  label,
  area,
  className,
}: {
  values: readonly number[];
  label: string;
  area?: boolean;
  className?: string;
}) {
  const top = Math.max(1, ...values);
  const n = values.length;
  const points = values.map((value, index) => `${index},${(40 - (value / top) * 38).toFixed(1)}`);
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${area ? Math.max(1, n - 1) : n} 40`}
      preserveAspectRatio="none"
      className={classNames("block h-9 w-full", className)}
    >
      {area ? (
        <>
          <path d={`M0,40L${points.join("L")}L${n - 1},40Z`} fill="var(--bar)" opacity="0.25" />
          <path
            d={`M${points.join("L")}`}
            fill="none"
            stroke="var(--bar)"
            strokeWidth="1.5"
            vectorEffect="non-scaling-stroke"
          />
        </>
      ) : (
        values.map((value, index) => (
          <rect
            key={index}
            x={index + 0.1}
            width="0.8"
            y={40 - (value / top) * 38}
            height={(value / top) * 38}
            fill="var(--bar)"
          />
        ))
      )}
    </svg>
  );
}
