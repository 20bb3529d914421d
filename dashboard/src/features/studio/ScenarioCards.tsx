import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../client/api";
import { classNames } from "../../components/ui/classNames";
import { SearchBox } from "../../components/ui/SearchBox";
import { compact, time } from "../../lib/format";
import { MiniChart } from "./fields";

interface ScenarioCardsProps {
  value: string;
  onChange: (name: string, load: number) => void;
}

const TITLES: Record<string, string> = { oom: "out of memory", pareto: "heavy tail", "rush-hour": "rush hour" };

interface ShapeProps {
  /** The scenario, and which of its quantities is shown. */
  name: string;
  what: string;
  values: readonly number[];
  /** Right end of the axis. */
  end: string;
  area?: boolean;
}

function Shape({ name, what, values, end, area }: ShapeProps) {
  return (
    <span className="min-w-0">
      <MiniChart area={area} values={values} label={`${what} of ${name}`} />
      <span className="flex justify-between text-faint">
        <span>{what}</span>
        <span>{end}</span>
      </span>
    </span>
  );
}

/** Scenarios as cards with small charts of their arrivals, sizes and intensities. */
export function ScenarioCards({ value, onChange }: ScenarioCardsProps) {
  const scenarios = useQuery({ queryKey: ["scenarios"], queryFn: ({ signal }) => api.scenarios({ signal }) });
  const previews = useQuery({
    queryKey: ["scenario-previews"],
    queryFn: ({ signal }) => api.scenarioPreviews({ signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const [text, setText] = useState("");
  // The scenario that was chosen at first begins the list, where it can be seen.
  const [first] = useState(value);
  const found = (scenarios.data ?? [])
    .filter((one) =>
      `${one.name} ${TITLES[one.name] ?? ""} ${one.description}`.toLowerCase().includes(text.toLowerCase()),
    )
    .sort((a, b) => Number(b.name === first) - Number(a.name === first));
  return (
    <>
      <SearchBox
        label="Search scenarios"
        placeholder={`${scenarios.data?.length ?? 0} scenarios`}
        value={text}
        onChange={setText}
        className="mb-3"
      />
      {scenarios.error ? <p role="alert">{scenarios.error.message}</p> : null}
      <div
        role="radiogroup"
        aria-label="Scenario"
        className="thin-scroll grid max-h-[420px] grid-cols-1 gap-2 overflow-y-auto p-0.5 sm:grid-cols-2"
      >
        {found.map((one) => {
          const shape = previews.data?.find((preview) => preview.name === one.name)?.shape;
          const on = one.name === value;
          return (
            <label
              key={one.name}
              className={classNames(
                "relative min-w-0 cursor-pointer rounded-control border p-3 text-12 transition-colors hover:bg-raised has-focus-visible:outline-2 has-focus-visible:outline-focus",
                on ? "border-accent bg-raised" : "border-control/60",
              )}
            >
              <input
                type="radio"
                name="scenario"
                checked={on}
                onChange={() => onChange(one.name, one.load)}
                className="absolute top-3 right-3 accent-[var(--accent)]"
              />
              <span className="block pr-6 font-semibold text-14">{TITLES[one.name] ?? one.name}</span>
              <span className="block text-muted">{one.description}.</span>
              {shape ? (
                <span className="mt-2 grid grid-cols-[2fr_1fr_1fr] gap-3">
                  <Shape name={one.name} what="arrivals" values={shape.arrivals} end={time(shape.seconds)} area />
                  <Shape name={one.name} what="sizes" values={shape.sizes} end={compact(shape.size_high)} />
                  <Shape name={one.name} what="intensity" values={shape.intensities} end="" />
                </span>
              ) : (
                <span className="skeleton mt-2 block h-9" />
              )}
            </label>
          );
        })}
        {scenarios.data && found.length === 0 ? <p className="text-muted">No scenario matches.</p> : null}
      </div>
    </>
  );
}
