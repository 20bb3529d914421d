import type { ReactNode } from "react";
import { classNames } from "./classNames";

/** Scrollable region that takes the focus, so that keys can scroll it. */
export function ScrollRegion({
  label,
  className,
  children,
}: {
  label: string;
  className?: string;
  children: ReactNode;
}) {
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys scroll what has the focus
      tabIndex={0}
      className={classNames("thin-scroll overflow-auto rounded-[4px]", className)}
    >
      {children}
    </section>
  );
}
