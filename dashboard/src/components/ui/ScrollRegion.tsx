import type { ReactNode } from "react";
import { cx } from "./classNames";

/** Scrolls what does not fit, by keys as well: a region without links or buttons would be out of their reach. */
export function Scroll({ label, className, children }: { label: string; className?: string; children: ReactNode }) {
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys scroll what has the focus
      tabIndex={0}
      className={cx("thin-scroll overflow-auto rounded-[4px]", className)}
    >
      {children}
    </section>
  );
}
