import { useLooks } from "../store/selectors";
import { Glyph } from "./ui/SchedulerGlyph";
import { Select } from "./ui/Select";

interface SchedulerSelectProps {
  value: string | null;
  onChange: (name: string) => void;
  label?: string;
}

/** One scheduler of the run, with its mark. */
export function SchedulerSelect({ value, onChange, label = "Scheduler" }: SchedulerSelectProps) {
  const looks = useLooks();
  return (
    <Select
      label={label}
      value={value ?? ""}
      onChange={onChange}
      options={looks.map((look) => ({ value: look.name, label: look.label, icon: <Glyph look={look} /> }))}
    />
  );
}
