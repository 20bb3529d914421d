import { useId } from "react";
import { classNames } from "./classNames";

interface Choice<T extends string> {
  value: T;
  label: string;
  title?: string;
}

interface SegmentedProps<T extends string> {
  label: string;
  /** A value that is its own label may stand alone. */
  choices: readonly (T | Choice<T>)[];
  /** Null where no choice applies, e.g. for a range set by the brush. */
  value: T | null;
  onChange: (value: T) => void;
  className?: string;
  wide?: boolean;
}

/** Choice of one of a few, built of native radio buttons for keyboard and screen readers. */
export function SegmentedControl<T extends string>({
  label,
  choices,
  value,
  onChange,
  className,
  wide,
}: SegmentedProps<T>) {
  const name = useId();
  return (
    <div
      role="radiogroup"
      aria-label={label}
      className={classNames(
        "inline-flex h-10 rounded-control border border-control p-0.5 md:h-8",
        wide && "flex w-full",
        className,
      )}
    >
      {choices
        .map((item) => (typeof item === "string" ? { value: item, label: item, title: undefined } : item))
        .map((choice) => (
          <label
            key={choice.value}
            title={choice.title}
            className={classNames(
              "relative flex cursor-pointer items-center justify-center rounded-[6px] px-1.5 text-12 text-muted transition-colors hover:text-ink md:px-2.5",
              "has-checked:bg-raised has-checked:font-medium has-checked:text-ink has-checked:shadow-[inset_0_0_0_1px_var(--hair)]",
              "has-focus-visible:outline-2 has-focus-visible:outline-focus",
              wide && "flex-1",
            )}
          >
            <input
              type="radio"
              name={name}
              className="absolute inset-0 cursor-pointer appearance-none opacity-0"
              checked={choice.value === value}
              onChange={() => onChange(choice.value)}
            />
            {choice.label}
          </label>
        ))}
    </div>
  );
}
