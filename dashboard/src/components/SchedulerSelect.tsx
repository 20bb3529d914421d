import { useSchedulerStyles } from "../store/schedulerStyles";
import { SchedulerGlyph } from "./ui/SchedulerGlyph";
import { Select } from "./ui/Select";

interface SchedulerSelectProps {
  value: string | null;
  onChange: (name: string) => void;
  label?: string;
}

/** Choice of one scheduler of the run. */
export function SchedulerSelect({ value, onChange, label = "Scheduler" }: SchedulerSelectProps) {
  const styles = useSchedulerStyles();
  return (
    <Select
      label={label}
      value={value ?? ""}
      onChange={onChange}
      className="max-md:[&>span]:max-w-14"
      options={styles.map((style) => ({
        value: style.name,
        label: style.label,
        icon: <SchedulerGlyph style={style} />,
      }))}
    />
  );
}
