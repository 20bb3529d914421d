import { useQuery } from "@tanstack/react-query";
import { FileCode } from "lucide-react";
import { api } from "../../client/api";
import type { Machine } from "../../client/models";
import { classNames } from "../../components/ui/classNames";
import { count } from "../../lib/format";
import { Problem, Section } from "./fields";
import type { Form, MachineKind } from "./studioForm";

interface MachineChoiceProps {
  form: Form;
  onChange: (change: Partial<Form>) => void;
  error: string | null;
}

const MOST_MARKS = 6;

/** Devices of a machine as small squares: amber for CPUs, cyan for accelerators. */
function Devices({ cpus, accelerators }: Pick<Machine, "cpus" | "accelerators">) {
  if (cpus + accelerators > MOST_MARKS) return null;
  return (
    <span aria-hidden="true" className="flex h-3.5 items-center gap-1">
      {Array.from({ length: cpus + accelerators }, (_, index) => (
        <i key={index} className={classNames("size-2 rounded-[2px]", index < cpus ? "bg-cpu" : "bg-gpu")} />
      ))}
    </span>
  );
}

/** Choice of the machine: as configured, a built-in platform, a measured profile, or YAML. */
export function MachineChoice({ form, onChange, error }: MachineChoiceProps) {
  const machines = useQuery({
    queryKey: ["machines"],
    queryFn: ({ signal }) => api.machines({ signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { machine } = form;
  const card = (kind: MachineKind, name: string, label: string, detail: string, devices?: Machine) => {
    const on =
      machine.kind === kind &&
      (kind === "yaml" || kind === "same" || machine.name === name || kind === "configured");
    return (
      <label
        key={`${kind} ${name}`}
        className={classNames(
          "relative min-w-0 cursor-pointer rounded-control border px-3 py-2 text-12 hover:bg-raised has-focus-visible:outline-2 has-focus-visible:outline-focus",
          on ? "border-accent bg-raised" : "border-control/60",
        )}
      >
        <input
          type="radio"
          name="machine"
          className="absolute inset-0 cursor-pointer appearance-none opacity-0"
          checked={on}
          onChange={() => onChange({ machine: { kind, name } })}
        />
        {devices ? <Devices {...devices} /> : kind === "yaml" ? <FileCode size={14} aria-hidden="true" /> : null}
        <span className="mt-0.5 block truncate font-semibold" title={label}>
          {label}
        </span>
        <span className={classNames("block truncate", devices?.measured ? "text-ok" : "text-muted")}>{detail}</span>
      </label>
    );
  };
  return (
    <Section title="Machine">
      <div role="radiogroup" aria-label="Machine" className="grid grid-cols-2 gap-2 sm:grid-cols-3 xl:grid-cols-4">
        {form.repeats
          ? card("same", "", "As in that run", machine.kind === "same" ? machine.name : "its own devices")
          : null}
        {(machines.data ?? []).map((one) =>
          card(
            one.kind,
            one.name,
            one.label,
            `${one.measured ? "measured " : ""}${count(one.cpus)} CPU${one.cpus > 1 ? "s" : ""} + ${count(one.accelerators)}`,
            one,
          ),
        )}
        {card("yaml", "", "YAML", "your own")}
      </div>
      {machine.kind === "yaml" ? (
        <textarea
          aria-label="Devices as YAML"
          spellCheck={false}
          rows={6}
          value={form.yaml}
          onChange={(event) => onChange({ yaml: event.target.value })}
          className="mt-2 w-full rounded-control border border-control bg-bg p-2 font-mono text-12"
          {...(error ? { "aria-invalid": true } : {})}
        />
      ) : null}
      <Problem text={error ?? machines.error?.message ?? null} />
    </Section>
  );
}
