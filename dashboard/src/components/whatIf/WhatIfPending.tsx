import { useEffect, useState } from "react";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { SchedulerName } from "../ui/SchedulerGlyph";

/** Placeholder of the first what-if result; after 1.5 s it explains why the first one takes longer. */
export function WhatIfPending({ styles }: { styles: readonly SchedulerStyle[] }) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), 1500);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div role="status" className="text-12">
      <ul>
        {styles.map((style) => (
          <li key={style.name} className="flex h-8 items-center gap-4 border-hair border-t">
            <span className="w-36 shrink-0">
              <SchedulerName style={style} />
            </span>
            <span className="skeleton h-2 flex-1" />
            <span className="skeleton h-2.5 w-24" />
          </li>
        ))}
      </ul>
      <p className="mt-3 text-muted">
        {long
          ? "The first request waits until the models are loaded; later ones take about a second."
          : "The same tasks run on both platforms."}
      </p>
    </div>
  );
}
