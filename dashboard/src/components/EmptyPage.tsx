import { SearchX } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "./Link";

/** Page without content: the reason and a link to the list of runs. */
export function EmptyPage({ title, mono, children }: { title: string; mono?: string; children: ReactNode }) {
  return (
    <section className="panel mx-auto flex max-w-lg flex-col items-center gap-3 p-8 text-center">
      <SearchX size={24} className="text-muted" aria-hidden="true" />
      <h1 className="font-semibold text-16">{title}</h1>
      {mono ? (
        <p className="max-w-full whitespace-pre-line break-all font-mono text-12 text-faint">{mono}</p>
      ) : null}
      <p className="text-12 text-muted">{children}</p>
      <Link
        to={{ view: "history" }}
        className="inline-flex h-10 items-center rounded-control bg-accent px-4 font-medium text-12 text-on-accent hover:brightness-110 md:h-8"
      >
        Go to the list of runs
      </Link>
    </section>
  );
}
