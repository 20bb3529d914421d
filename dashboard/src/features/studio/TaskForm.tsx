import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../client/api";
import { Button } from "../../components/ui/Button";
import { ToggleSwitch } from "../../components/ui/ToggleSwitch";
import { closeStudio } from "../../store/studioStore";
import { setUi } from "../../store/uiStore";
import { Field, Problem } from "./fields";
import { errorsOf } from "./studioForm";

/** Form of one task that every scheduler of the live run decides for. */
export function TaskForm() {
  const [size, setSize] = useState("1000");
  const [intensity, setIntensity] = useState("0.5");
  const [memory, setMemory] = useState("100");
  const [kind, setKind] = useState("generic");
  const [divisible, setDivisible] = useState(true);
  const sending = useMutation({
    mutationFn: () =>
      api.submitTask({
        size: Number(size),
        compute_intensity: Number(intensity),
        memory_required: Number(memory),
        kind,
        divisible,
      }),
    onSuccess: (task) => {
      closeStudio();
      setUi({ task: task.task_id });
    },
  });
  const errors = errorsOf(sending.error);
  const of = (field: string) => errors.find((one) => one.field === field)?.text ?? null;
  const known = ["size", "compute_intensity", "memory_required", "kind"];
  return (
    <form
      className="max-w-md space-y-3 text-12"
      onSubmit={(event) => {
        event.preventDefault();
        sending.mutate();
      }}
    >
      <p className="text-muted">
        The task arrives now in the live run. Every scheduler decides for it, each on its own machine.
      </p>
      <div className="grid grid-cols-2 gap-3">
        <Field
          label="Size"
          inputMode="decimal"
          value={size}
          error={of("size")}
          onChange={(e) => setSize(e.target.value)}
        />
        <Field
          label="Compute intensity, 0 to 1"
          inputMode="decimal"
          value={intensity}
          error={of("compute_intensity")}
          onChange={(e) => setIntensity(e.target.value)}
        />
        <Field
          label="Memory, MB"
          inputMode="decimal"
          value={memory}
          error={of("memory_required")}
          onChange={(e) => setMemory(e.target.value)}
        />
        <Field label="Kind" value={kind} error={of("kind")} onChange={(e) => setKind(e.target.value)} />
      </div>
      <ToggleSwitch label="May be split between CPU and GPU" checked={divisible} onChange={setDivisible} />
      <Problem text={errors.find((one) => !known.includes(one.field))?.text ?? null} />
      <Button type="submit" variant="primary" disabled={sending.isPending}>
        Send the task
      </Button>
    </form>
  );
}
