import { Select } from "../components/ui/Select";
import { tick } from "../lib/format";
import { useLive } from "../store/liveStore";
import { setSpeed } from "./appActions";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 50];

/** Choice of the speed: virtual seconds per second. */
export default function SpeedPicker({ className = "md:h-8" }: { className?: string }) {
  const speed = useLive((s) => s.status?.speed ?? 1);
  const values = SPEEDS.includes(speed) ? SPEEDS : [...SPEEDS, speed].sort((a, b) => a - b);
  return (
    <Select
      label="Speed"
      value={String(speed)}
      options={values.map((value) => ({ value: String(value), label: `${tick(value)}×` }))}
      onChange={(value) => void setSpeed(Number(value))}
      className={className}
    />
  );
}
