import type { ReactNode } from "react";
import { classNames } from "./classNames";

/** Head of a table that does not sort: the columns' titles, each with the classes of its cell. */
export function TableHead({ columns }: { columns: readonly (readonly [title: ReactNode, className?: string])[] }) {
  return (
    <thead className="text-left text-muted">
      <tr className="h-8">
        {columns.map(([title, className], index) => (
          <th key={index} scope="col" className={classNames("font-normal", className)}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}
