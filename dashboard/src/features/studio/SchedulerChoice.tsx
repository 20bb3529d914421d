import { Plus, RotateCcw, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import type { Scheduler } from "../../client/models";
import { Button, IconButton } from "../../components/ui/Button";
import { classNames } from "../../components/ui/classNames";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { ToggleSwitch } from "../../components/ui/ToggleSwitch";
import { useStylesOf } from "../../store/schedulerStyles";
import { Field, Problem, Section } from "./fields";
import type { Form, ParameterValue } from "./studioForm";

interface SchedulerChoiceProps {
  schedulers: readonly Scheduler[];
  chosen: Form["chosen"];
  onChange: (chosen: Form["chosen"]) => void;
  error: string | null;
}

/** Parameters that a form can hold; lists of coefficients are for the command line. */
const editable = (scheduler: Scheduler): [string, ParameterValue][] =>
  Object.entries(scheduler.parameters as Record<string, ParameterValue>).filter(
    ([, value]) => typeof value !== "string" || !value.startsWith("("),
  );

const learns = (scheduler: Scheduler): boolean => "learn" in scheduler.parameters;

const GROUPS: readonly { title: string; note?: string; has: (scheduler: Scheduler) => boolean }[] = [
  { title: "Baselines", has: (one) => one.knows === "nothing" && !learns(one) },
  { title: "Learners", has: learns },
  { title: "References", note: "know the durations", has: (one) => one.knows !== "nothing" && !learns(one) },
];

function Parameters({
  scheduler,
  values,
  onChange,
}: {
  scheduler: Scheduler;
  values: Readonly<Record<string, ParameterValue>>;
  onChange: (values: Record<string, ParameterValue>) => void;
}) {
  const set = (key: string, value: ParameterValue, own: ParameterValue) => {
    const { [key]: _, ...others } = values;
    onChange(value === own ? others : { ...others, [key]: value });
  };
  return (
    <div className="mt-2 rounded-control border border-control/60 bg-raised p-3">
      <p className="mb-2 flex items-center justify-between gap-2 text-12">
        <span>
          <b className="font-semibold">{scheduler.label}</b> <span className="text-muted">{scheduler.summary}</span>
        </span>
        <Button icon={<RotateCcw size={13} aria-hidden="true" />} onClick={() => onChange({})}>
          Defaults
        </Button>
      </p>
      <div className="grid grid-cols-2 items-end gap-3 sm:grid-cols-3">
        {editable(scheduler).map(([key, own]) => {
          const value = key in values ? (values[key] as ParameterValue) : own;
          if (typeof own === "boolean")
            return (
              <ToggleSwitch
                key={key}
                label={key.replaceAll("_", " ")}
                checked={value === true}
                onChange={(on) => set(key, on, own)}
              />
            );
          const text = value === null ? "" : String(value);
          return (
            <Field
              key={key}
              label={`${key.replaceAll("_", " ")}${own === null ? "" : `, ${own} by default`}`}
              value={text}
              placeholder="none"
              onChange={(event) => {
                const given = event.target.value.trim();
                const parsed =
                  given === ""
                    ? null
                    : typeof own !== "string" && !Number.isNaN(Number(given))
                      ? Number(given)
                      : given;
                set(key, parsed, own);
              }}
            />
          );
        })}
      </div>
    </div>
  );
}

/** Schedulers as chips with a switch; those with parameters have an editor. */
export function SchedulerChoice({ schedulers, chosen, onChange, error }: SchedulerChoiceProps) {
  const styles = useStylesOf(schedulers.map((one) => one.name));
  const [editing, setEditing] = useState<string | null>(null);
  const [all, setAll] = useState(false);
  const visible = schedulers.filter((one) => all || one.published || one.name in chosen);
  const hidden = schedulers.length - visible.length;
  const toggle = (name: string, on: boolean) => {
    const { [name]: _, ...others } = chosen;
    onChange(on ? { ...others, [name]: {} } : others);
  };
  const edited = schedulers.find((one) => one.name === editing && one.name in chosen);
  return (
    <Section title="Schedulers" note={`${Object.keys(chosen).length} of ${schedulers.length} take part`}>
      <div className="space-y-2">
        {GROUPS.map(({ title, note, has }) => {
          const members = visible.filter(has);
          return members.length ? (
            <div key={title}>
              <p className="mb-1 text-12 text-muted">
                {title} {note ? <span className="text-faint">{note}</span> : null}
              </p>
              <div className="grid grid-cols-1 gap-2 sm:grid-cols-2">
                {members.map((one) => {
                  const on = one.name in chosen;
                  const style = styles.get(one.name);
                  const changed = Object.keys(chosen[one.name] ?? {}).length;
                  return (
                    <div
                      key={one.name}
                      title={one.summary}
                      className={classNames(
                        "flex h-10 min-w-0 items-center gap-2 rounded-control border pr-1 pl-3 text-12 md:h-8",
                        on ? "border-control" : "border-control/50 border-dashed text-muted",
                      )}
                    >
                      {style ? <SchedulerGlyph style={style} /> : null}
                      <span className="min-w-0 flex-1 truncate">
                        {one.label}
                        {changed ? <span className="text-accent"> · {changed} changed</span> : null}
                      </span>
                      {on && editable(one).length ? (
                        <IconButton
                          label={`Parameters of ${one.label}`}
                          aria-expanded={editing === one.name}
                          onClick={() => setEditing(editing === one.name ? null : one.name)}
                        >
                          <SlidersHorizontal size={14} aria-hidden="true" />
                        </IconButton>
                      ) : null}
                      <ToggleSwitch
                        label={<span className="sr-only">{one.label} takes part</span>}
                        checked={on}
                        onChange={(value) => toggle(one.name, value)}
                      />
                    </div>
                  );
                })}
              </div>
            </div>
          ) : null;
        })}
      </div>
      {edited ? (
        <Parameters
          scheduler={edited}
          values={chosen[edited.name] ?? {}}
          onChange={(values) => onChange({ ...chosen, [edited.name]: values })}
        />
      ) : null}
      {hidden > 0 ? (
        <Button
          variant="quiet"
          className="mt-1"
          icon={<Plus size={13} aria-hidden="true" />}
          onClick={() => setAll(true)}
        >
          {hidden} more
        </Button>
      ) : null}
      <Problem text={error} />
    </Section>
  );
}
