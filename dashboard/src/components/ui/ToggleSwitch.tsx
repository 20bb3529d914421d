import type { ReactNode } from "react";
import { classNames } from "./classNames";

interface ToggleProps {
  label: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
}

export function ToggleSwitch({ label, checked, onChange }: ToggleProps) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={checked}
      onClick={() => onChange(!checked)}
      className="inline-flex h-10 items-center gap-2 rounded-control px-1 text-12 text-muted hover:text-ink md:h-7"
    >
      {label}
      <span
        className={classNames(
          "relative inline-block h-4 w-7 rounded-full border transition-colors",
          checked ? "border-accent bg-accent" : "border-control bg-transparent",
        )}
      >
        <span
          className={classNames(
            "absolute top-[2px] size-2.5 rounded-full transition-[left]",
            checked ? "left-[14px] bg-on-accent" : "left-[2px] bg-control",
          )}
        />
      </span>
    </button>
  );
}
