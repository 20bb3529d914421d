import type { ReactNode } from "react";

interface FigureProps {
  label: string;
  value: ReactNode;
  /** What qualifies the value, below it. */
  children?: ReactNode;
}

/** One number of a summary with its label, in a list of definitions. */
export function Figure({ label, value, children }: FigureProps) {
  return (
    <div className="min-w-0 border-hair text-12 xl:border-l xl:pl-3">
      <dt className="truncate text-muted">{label}</dt>
      <dd className="mt-0.5 whitespace-nowrap font-semibold text-16 sm:text-20">{value}</dd>
      <dd className="text-faint">{children}</dd>
    </div>
  );
}
