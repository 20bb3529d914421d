import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { classNames } from "./classNames";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: "primary" | "outline" | "quiet";
  icon?: ReactNode;
  /** Keyboard shortcut. */
  hint?: string;
  ref?: Ref<HTMLButtonElement>;
}

const VARIANTS = {
  primary: "bg-accent text-on-accent border-transparent font-medium hover:brightness-110",
  outline: "border-control text-ink hover:bg-raised",
  quiet: "border-transparent text-muted hover:text-ink hover:bg-raised",
} as const;

export function Button({
  variant = "outline",
  icon,
  hint,
  className,
  children,
  type = "button",
  ...rest
}: ButtonProps) {
  return (
    <button
      type={type}
      className={classNames(
        "inline-flex h-10 items-center justify-center gap-2 whitespace-nowrap rounded-control border px-3 text-12 transition-colors md:h-8",
        "disabled:opacity-50",
        VARIANTS[variant],
        className,
      )}
      {...rest}
    >
      {icon}
      {children}
      {hint ? (
        <kbd className="kbd max-[1679px]:hidden" aria-hidden="true">
          {hint}
        </kbd>
      ) : null}
    </button>
  );
}

interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  label: string;
  ref?: Ref<HTMLButtonElement>;
}

/** Button with an icon only; the label serves as accessible name and tooltip. */
export function IconButton({ label, className, children, type = "button", ...rest }: IconButtonProps) {
  return (
    <button
      type={type}
      aria-label={label}
      title={label}
      className={classNames(
        "inline-flex size-10 shrink-0 items-center justify-center rounded-control text-muted transition-colors hover:bg-raised hover:text-ink md:size-7",
        "disabled:opacity-50",
        className,
      )}
      {...rest}
    >
      {children}
    </button>
  );
}
