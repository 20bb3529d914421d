import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { RotateCcw } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { api } from "../../client/api";
import { time } from "../../lib/format";
import { useLive } from "../../store/liveStore";
import { RETRY_WHILE_BUSY } from "../../store/queryClient";
import { useVisibleStyles } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { Button } from "../ui/Button";
import { classNames } from "../ui/classNames";
import { SegmentedControl } from "../ui/SegmentedControl";
import { Panel } from "../widget/Panel";
import { READY } from "../widget/panelState";
import { queryState } from "../widget/queryState";
import { WhatIfPending } from "./WhatIfPending";
import { change, expected, MEASURES, type Measure, WhatIfResults } from "./WhatIfResults";
import { WhatIfSliders } from "./WhatIfSliders";
import { changed, formatSettings, inWords, isTrace, parseSettings, present, requestOf } from "./whatIfSettings";

/** Value that has not changed for `ms`; a slider sends many values while it is dragged. */
function useSettled<T>(value: T, ms = 350): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** What-if analysis: sliders for the platform, and the paired change for every scheduler. */
export function WhatIf() {
  const gpus = useLive((s) => s.status?.platform.devices.filter((device) => device.kind !== "cpu").length ?? 4);
  const load = useLive((s) => s.status?.load ?? 0.1);
  const scenario = useLive((s) => s.status?.scenario ?? "");
  const comparison = useLive((s) => s.comparison);
  const styles = useVisibleStyles();
  const now = useMemo(() => present(gpus, load), [gpus, load]);
  const text = useUi((s) => s.whatif);
  const own = useMemo(() => parseSettings(text), [text]);
  const settings = useMemo(() => ({ ...now, ...own }), [now, own]);
  const [measure, setMeasure] = useState<Measure>("latency");
  const settled = useSettled(own);
  const asked = useMemo(() => ({ ...now, ...settled }), [now, settled]);
  // Sorted, because another order of the schedulers must not cause a new request.
  const names = styles.map((style) => style.name).sort();
  const body = requestOf(asked, now, names, scenario);
  const query = useQuery({
    queryKey: ["whatif", body],
    queryFn: ({ signal }) => api.whatif(body, { signal }),
    enabled: names.length > 0,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    ...RETRY_WHILE_BUSY,
  });
  const answers = new Map(query.data?.schedulers.map((row) => [row.name, row]));
  const rows = styles.flatMap((style) => answers.get(style.name) ?? []);
  const byName = new Map(styles.map((style) => [style.name, style]));
  const lead = rows.find((row) => row.name === "hybrid_ml") ?? rows.find((row) => !byName.get(row.name)?.reference);
  const verdict = lead ? change(lead, measure) : null;
  const busy = query.isFetching || settled !== own;
  return (
    <Panel
      title="What-if"
      subtitle="paired seeds: the same tasks, before and after"
      state={query.error && !query.data ? queryState(query, "Could not run the simulation") : READY}
      actions={
        <Button
          variant="quiet"
          icon={<RotateCcw size={14} aria-hidden="true" />}
          disabled={changed(settings, now).length === 0}
          onClick={() => setUi({ whatif: null })}
        >
          Reset
        </Button>
      }
      table={() => ({
        name: "what-if",
        columns: [
          { key: "scheduler", label: "scheduler" },
          ...MEASURES.flatMap(({ value, unit }) => [
            { key: `${value}_now`, label: `${value} now`, numeric: true, unit },
            { key: `${value}_what_if`, label: `${value} what if, about`, numeric: true, unit },
            { key: `${value}_change_low`, label: "change, low", numeric: true, unit: "share" as const },
            { key: `${value}_change_high`, label: "change, high", numeric: true, unit: "share" as const },
          ]),
          { key: "n", label: "seeds", numeric: true },
        ],
        rows: rows.map((row) => [
          row.name,
          ...MEASURES.flatMap(({ value }) => {
            const { now, later } = expected(row, value, comparison);
            const { baseline, low, high } = row[value];
            return [now, later, low / baseline, high / baseline];
          }),
          row.n,
        ]),
      })}
      bodyClass="thin-scroll flex flex-col overflow-y-auto"
      note={
        query.data
          ? `${isTrace(scenario) ? "The run plays a trace; these are tasks of a scenario at the same load. " : ""}Now: the mean of the run. What if: the same times the simulated change, whose paired 95 % interval is over ${query.data.seeds} seeds of ${query.data.tasks} tasks (${query.data.scenario}). Ticks under the sliders mark the running platform.`
          : undefined
      }
    >
      <div className="grid min-h-0 flex-1 gap-6 lg:grid-cols-[minmax(220px,1fr)_2.4fr]">
        <WhatIfSliders
          settings={settings}
          now={now}
          onChange={(next) => setUi({ whatif: formatSettings(next, now) })}
        />
        <div className="flex min-w-0 flex-col gap-3" aria-live="polite" aria-busy={busy}>
          <div className="flex flex-wrap items-center justify-between gap-2">
            <div>
              <p className="font-semibold text-16">{inWords(asked, now)}</p>
              <p className="text-12 text-muted">
                {busy
                  ? (query.failureReason?.message ?? "Simulating…")
                  : lead && verdict && changed(asked, now).length
                    ? `${byName.get(lead.name)?.label ?? lead.name}: ${measure} ${verdict.text}`
                    : "Move a slider to change it."}
                {query.data && !busy ? ` · answered in ${time(query.data.seconds)}` : ""}
              </p>
            </div>
            <SegmentedControl label="Measure" choices={MEASURES} value={measure} onChange={setMeasure} />
          </div>
          {rows.length ? (
            <div className={classNames(busy && "dim-marks")}>
              <WhatIfResults rows={rows} styles={byName} measure={measure} comparison={comparison} busy={busy} />
            </div>
          ) : (
            <WhatIfPending styles={styles} />
          )}
        </div>
      </div>
    </Panel>
  );
}
