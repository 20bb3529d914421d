import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { Dices, Gauge, Play, Terminal } from "lucide-react";
import { useEffect, useState } from "react";
import { api } from "../../client/api";
import { ApiError } from "../../client/request";
import { TagsField } from "../../components/TagsField";
import { announce } from "../../components/ui/announce";
import { Button, IconButton } from "../../components/ui/Button";
import { Dialog } from "../../components/ui/Dialog";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { ToggleSwitch } from "../../components/ui/ToggleSwitch";
import { count, date, shortRunId, significant } from "../../lib/format";
import { live, useLive } from "../../store/liveStore";
import { queryClient } from "../../store/queryClient";
import { closeStudio, useStudio } from "../../store/studioStore";
import { navigate } from "../../store/uiStore";
import { ArrivalPreview, TraceLoad } from "./ArrivalPreview";
import { Field, INPUT, Problem, Section } from "./fields";
import { LoadSlider } from "./LoadSlider";
import { MachineChoice } from "./MachineChoice";
import { ScenarioCards } from "./ScenarioCards";
import { SchedulerChoice } from "./SchedulerChoice";
import {
  commandOf,
  errorFor,
  errorsOf,
  type Form,
  formOf,
  labelledRequest,
  liveSchedulers,
  otherError,
  requestOf,
  type SlowdownForm,
  type Source,
  USUAL_SLOWDOWN,
} from "./studioForm";
import { TaskForm } from "./TaskForm";
import { type Draft, TraceSource } from "./TraceSource";
import { contentType, guessMapping, isComplete, traceName } from "./traceMapping";

const SOURCES: readonly { value: Source; label: string }[] = [
  { value: "scenario", label: "Scenario" },
  { value: "trace", label: "My trace" },
  { value: "task", label: "One task" },
];
const DEBOUNCE_MS = 300;

function useDebounced<T>(value: T): T {
  const [late, setLate] = useState(value);
  const key = JSON.stringify(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: equal values must not start the time again
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [key]);
  return late;
}

/** Earlier runs whose settings the form can take. */
function EarlierRuns({ onPick }: { onPick: (id: string) => void }) {
  const runs = useQuery({ queryKey: ["runs", "studio"], queryFn: ({ signal }) => api.runs(20, null, { signal }) });
  const found = runs.data?.runs.filter((run) => run.source === "simulated") ?? [];
  return (
    <select
      aria-label="Start from an earlier run"
      value=""
      onChange={(event) => onPick(event.target.value)}
      className={`${INPUT} max-w-48 max-sm:max-w-32`}
    >
      <option value="">Start from an earlier run</option>
      {found.map((run) => (
        <option key={run.run_id} value={run.run_id}>
          {run.name || `${run.scenario}, ${date(run.created_at)}`}
        </option>
      ))}
    </select>
  );
}

const SLOWDOWN_FIELDS: readonly { key: keyof SlowdownForm; label: string }[] = [
  { key: "device", label: "Device or kind" },
  { key: "factor", label: "Slowdown factor" },
  { key: "start", label: "From, s" },
  { key: "until", label: "Until, s" },
  { key: "every", label: "Repeat every, s" },
];

/** Switch and fields for a time in which tasks take longer on a device. */
function SlowdownChoice({
  value,
  onChange,
  error,
}: {
  value: SlowdownForm | null;
  onChange: (value: SlowdownForm | null) => void;
  error: string | null;
}) {
  return (
    <Section title="Slowdown" note="learners have to notice it">
      <ToggleSwitch
        label="A device gets slower for a while"
        checked={value !== null}
        onChange={(on) => onChange(on ? USUAL_SLOWDOWN : null)}
      />
      {value ? (
        <div className="mt-2 grid grid-cols-2 gap-3 sm:grid-cols-5">
          {SLOWDOWN_FIELDS.map(({ key, label }) => (
            <Field
              key={key}
              label={label}
              inputMode={key === "device" ? "text" : "decimal"}
              placeholder={key === "every" ? "once" : undefined}
              value={value[key]}
              onChange={(event) => onChange({ ...value, [key]: event.target.value })}
            />
          ))}
        </div>
      ) : null}
      <Problem text={value ? error : null} />
    </Section>
  );
}

/** Dialog that starts a run: source of the tasks, load, machine, schedulers, seed and labels. */
export default function StudioDialog() {
  const from = useStudio((s) => s.from);
  const status = useLive((s) => s.status);
  const all = useLive((s) => s.schedulers);
  const schedulers = liveSchedulers(all);
  const [form, setForm] = useState<Form>(() =>
    formOf(from, {
      schedulers: status?.schedulers ?? all.filter((one) => one.published).map((one) => one.name),
      seed: status?.seed ?? 42,
      speed: status?.speed ?? 1,
    }),
  );
  const [draft, setDraft] = useState<Draft | null>(null);
  const [ownLoad, setOwnLoad] = useState(0.7);
  const [ownTraceLoad, setOwnTraceLoad] = useState<number | null>(null);
  const change = (more: Partial<Form>) => setForm((before) => ({ ...before, ...more }));

  const request = requestOf(form);
  const checked = useDebounced(request);
  const usable = form.source === "scenario" || (form.source === "trace" && !draft && form.trace !== "");
  const preview = useQuery({
    queryKey: ["preview", checked],
    queryFn: ({ signal }) => api.previewRun(checked, { signal }),
    // Right after a change of the source the late request still names the other one.
    enabled: usable && (form.source === "trace" ? Boolean(checked.trace) : checked.scenario !== undefined),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const place = {
    platform: form.machine.kind === "platform" ? form.machine.name : null,
    profile: form.machine.kind === "profile" ? form.machine.name : null,
  };
  const mapping = draft?.mapping && isComplete(draft.mapping) ? JSON.stringify(draft.mapping) : null;
  const read = useDebounced({ mapping, ...place });
  const inspection = useQuery({
    queryKey: ["inspect", draft?.file.name, draft?.file.size, draft?.file.lastModified, read],
    queryFn: ({ signal }) =>
      api.inspectTrace({ content: draft?.file as File, type: contentType(draft?.file.name ?? "") }, read, {
        signal,
      }),
    enabled: draft !== null && form.source === "trace",
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const table = inspection.data;
  // A table that the server does not know gets a mapping to begin with.
  useEffect(() => {
    if (draft && !draft.mapping && table && table.format === null && !table.error)
      setDraft({ ...draft, mapping: guessMapping(table.columns.map((column) => column.name)) });
  }, [draft, table]);

  const starting = useMutation({
    mutationFn: async () => {
      let trace = form.trace;
      if (form.source === "trace" && draft) {
        const file = { content: draft.file, type: contentType(draft.file.name) };
        await api.storeTrace(file, { ...place, mapping, skip_bad: draft.skipBad, name: draft.name });
        trace = draft.name;
        setDraft(null);
        change({ trace });
      }
      return api.beginRun(labelledRequest({ ...form, trace }));
    },
    onSuccess: (begun) => {
      live.setStatus(begun);
      void queryClient.invalidateQueries({ queryKey: ["runs"] });
      closeStudio();
      navigate({ view: "compare" });
      announce("Run started");
    },
  });
  const taken = starting.error instanceof ApiError && starting.error.status === 409 ? starting.error.message : null;
  const errors = [...(taken ? [] : errorsOf(starting.error)), ...(usable ? errorsOf(preview.error) : [])];
  const known = usable && !preview.error ? preview.data : undefined;
  const shape = draft ? table?.shape : known?.shape;
  // A preview of a rescaled trace no longer tells the trace's own load.
  const traceLoad = form.source === "trace" && form.load === null && known ? known.load : undefined;
  useEffect(() => {
    if (traceLoad !== undefined) setOwnTraceLoad(traceLoad);
  }, [traceLoad]);
  const offered = draft ? (table?.offered_load ?? null) : ownTraceLoad;
  const load = form.load ?? ownLoad;
  const number = Object.keys(form.chosen).length;
  const bad = table ? table.rows_read - table.rows_kept : 0;
  const ready =
    number > 0 &&
    (form.source === "scenario" ||
      (draft ? (table?.rows_kept ?? 0) > 0 && (bad === 0 || draft.skipBad) : form.trace !== ""));
  const copy = () =>
    void navigator.clipboard
      ?.writeText(commandOf(form, window.location.origin))
      .then(() => announce("Command copied"));
  const takeRun = async (id: string) => {
    if (id) setForm(formOf(await api.run(id), { schedulers: [], seed: 42, speed: status?.speed ?? 1 }));
  };
  const summary =
    draft && table?.rows_kept
      ? `${number} schedulers × ${count(table.rows_kept)} tasks`
      : known?.tasks
        ? `${number} schedulers × ${count(known.tasks)} tasks`
        : known?.rate
          ? `${number} schedulers × ${significant(known.rate)} tasks/s`
          : `${number} schedulers`;
  return (
    <Dialog
      kind="wide"
      title="New run"
      subtitle={
        status?.is_running
          ? "Ends the run that is live now; it stays in the history."
          : "Every scheduler gets the same tasks, each on its own copy of the machine."
      }
      onClose={closeStudio}
      actions={<EarlierRuns onPick={(id) => void takeRun(id)} />}
      footer={
        form.source === "task" ? null : (
          <div className="flex flex-wrap items-center gap-2">
            <Gauge size={15} className="text-muted max-sm:hidden" aria-hidden="true" />
            <p className="min-w-0 flex-1 text-12" role="status">
              {summary}
              {known?.measured ? <span className="text-ok"> · measured durations</span> : null}
            </p>
            <Problem text={otherError(errors)} />
            <Button
              variant="quiet"
              icon={<Terminal size={14} aria-hidden="true" />}
              onClick={copy}
              title="Copy the command that starts the same run"
            >
              <span className="max-sm:sr-only">Copy command</span>
            </Button>
            <Button onClick={closeStudio} className="max-sm:hidden">
              Cancel
            </Button>
            <Button
              variant="primary"
              icon={<Play size={14} aria-hidden="true" />}
              disabled={!ready || starting.isPending}
              onClick={() => starting.mutate()}
            >
              {starting.isPending ? "Starting …" : "Start"}
            </Button>
          </div>
        )
      }
    >
      {/* Shortcuts of the page must not fire while the form is open. */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it only stops keys */}
      <div onKeyDown={(event) => event.key !== "Escape" && event.stopPropagation()} className="space-y-4">
        <SegmentedControl
          label="Source of the tasks"
          choices={SOURCES}
          value={form.source}
          onChange={(source) => change({ source, load: null })}
        />
        {form.repeats ? (
          <p className="text-12 text-muted">
            Settings of run {shortRunId(form.repeats)}, which stay where you change nothing.
          </p>
        ) : null}
        {form.source === "task" ? (
          <TaskForm />
        ) : (
          <div className="grid gap-6 lg:grid-cols-[minmax(0,1fr)_minmax(0,1fr)] lg:gap-8">
            <div className="min-w-0 space-y-5">
              {form.source === "scenario" ? (
                <>
                  <ScenarioCards
                    value={form.scenario}
                    onChange={(scenario, usual) => {
                      setOwnLoad(usual);
                      change({ scenario, load: null });
                    }}
                  />
                  <Problem text={errorFor(errors, "scenario")} />
                </>
              ) : (
                <>
                  <TraceSource
                    trace={form.trace}
                    draft={draft}
                    inspection={table}
                    pending={inspection.isFetching}
                    error={draft ? (inspection.error?.message ?? null) : errorFor(errors, "trace")}
                    nameError={taken}
                    onTrace={(trace) => change({ trace, load: null })}
                    onFile={(file) => {
                      starting.reset();
                      setDraft({ file, mapping: null, skipBad: false, name: traceName(file.name) });
                      change({ load: null });
                    }}
                    onDraft={setDraft}
                  />
                  <ToggleSwitch
                    label="Begin again at its end"
                    checked={form.repeat}
                    onChange={(repeat) => change({ repeat })}
                  />
                </>
              )}
              {shape ? (
                <ArrivalPreview
                  shape={shape}
                  capacity={known?.capacity ?? null}
                  rate={known?.rate ?? null}
                  title={
                    form.source === "trace" ? "the whole trace" : `${form.scenario} at ${significant(known?.load)}`
                  }
                />
              ) : null}
            </div>
            <div className="min-w-0 space-y-5">
              {form.source === "scenario" ? (
                <LoadSlider
                  load={known && form.load === null ? (known.load ?? load) : load}
                  onChange={(value) => change({ load: value })}
                  preview={known}
                  error={errorFor(errors, "load", "utilisation")}
                />
              ) : offered !== null || table?.rows_kept || known ? (
                <TraceLoad
                  offered={offered}
                  load={form.load}
                  platform={known?.platform.name ?? table?.platform ?? "this machine"}
                  unknownMachine={draft !== null && (form.machine.kind === "yaml" || form.machine.kind === "same")}
                  onLoad={(value) => change({ load: value })}
                />
              ) : null}
              <MachineChoice form={form} onChange={change} error={errorFor(errors, "platform", "profile")} />
              <SlowdownChoice
                value={form.slowdown}
                onChange={(slowdown) => change({ slowdown })}
                error={errorFor(errors, "slowdown")}
              />
              <SchedulerChoice
                schedulers={schedulers}
                chosen={form.chosen}
                onChange={(chosen) => change({ chosen })}
                error={number === 0 ? "Choose at least one." : errorFor(errors, "schedulers")}
              />
              <Section title="Seed, speed and labels">
                <div className="grid grid-cols-2 items-start gap-3 sm:grid-cols-[1fr_1fr_2fr]">
                  <div className="flex items-end gap-1">
                    <Field
                      label="Seed"
                      inputMode="numeric"
                      value={form.seed}
                      error={errorFor(errors, "seed")}
                      onChange={(event) => change({ seed: event.target.value })}
                      className="flex-1"
                    />
                    <IconButton
                      label="Another seed"
                      onClick={() => change({ seed: String(Math.floor(Math.random() * 1e6)) })}
                    >
                      <Dices size={15} aria-hidden="true" />
                    </IconButton>
                  </div>
                  <Field
                    label="Speed, times real time"
                    inputMode="decimal"
                    value={form.speed}
                    error={errorFor(errors, "speed")}
                    onChange={(event) => change({ speed: event.target.value })}
                  />
                  <Field
                    label="Name"
                    value={form.name}
                    maxLength={120}
                    error={errorFor(errors, "name")}
                    onChange={(event) => change({ name: event.target.value })}
                    className="max-sm:col-span-2"
                  />
                  <TagsField
                    tags={form.tags}
                    onChange={(tags) => change({ tags })}
                    error={errorFor(errors, "tags")}
                  />
                  <Field
                    label="Note"
                    value={form.note}
                    maxLength={2000}
                    error={errorFor(errors, "note")}
                    onChange={(event) => change({ note: event.target.value })}
                    className="col-span-2 sm:col-span-1"
                  />
                </div>
              </Section>
            </div>
          </div>
        )}
      </div>
    </Dialog>
  );
}
