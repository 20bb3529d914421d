import { ChevronDown } from "lucide-react";
import type { ReactNode } from "react";
import { classNames } from "./classNames";
import { Menu } from "./Menu";

interface Option<T extends string> {
  value: T;
  label: string;
  icon?: ReactNode;
}

interface SelectProps<T extends string> {
  label: string;
  options: readonly Option<T>[];
  value: T;
  onChange: (value: T) => void;
  className?: string;
}

/** Select box with icons, which a native select cannot show. */
export function Select<T extends string>({ label, options, value, onChange, className }: SelectProps<T>) {
  const current = options.find((option) => option.value === value);
  return (
    <Menu
      label={label}
      items={options.map((option) => ({
        key: option.value,
        label: option.label,
        icon: option.icon,
        checked: option.value === value,
        onSelect: () => onChange(option.value),
      }))}
      trigger={(props) => (
        <button
          type="button"
          {...props}
          aria-label={`${label}: ${current?.label ?? value}`}
          className={classNames(
            "inline-flex h-10 items-center gap-2 rounded-control border border-control px-2.5 text-12 text-ink transition-colors hover:bg-raised md:h-7",
            className,
          )}
        >
          {current?.icon}
          <span className="max-w-32 truncate font-medium">{current?.label ?? value}</span>
          <ChevronDown size={14} className="text-muted" aria-hidden="true" />
        </button>
      )}
    />
  );
}
