import { useId } from "react";
import { fromPosition, type Settings, SLIDERS, type Slider, toPosition } from "./whatIfSettings";

interface SlidersProps {
  settings: Settings;
  now: Settings;
  onChange: (settings: Settings) => void;
}

function One({
  slider,
  value,
  was,
  onChange,
}: {
  slider: Slider;
  value: number;
  was: number;
  onChange: (v: number) => void;
}) {
  const id = useId();
  const [min, max] = slider.logarithmic ? [0, 1] : [slider.min, slider.max];
  const mark = (toPosition(slider, was) - min) / (max - min);
  const moved = Math.abs(value - was) > 1e-9;
  return (
    <div>
      <div className="flex items-baseline justify-between gap-2">
        <label htmlFor={id}>{slider.label}</label>
        <span className="text-muted">
          <span className="font-semibold text-ink">{slider.show(value)}</span>
          {moved ? ` was ${slider.show(was)}` : ""}
        </span>
      </div>
      <div className="relative">
        <input
          id={id}
          type="range"
          min={min}
          max={max}
          step={slider.logarithmic ? 0.005 : slider.step}
          value={toPosition(slider, value)}
          aria-valuetext={slider.show(value)}
          onChange={(event) => onChange(fromPosition(slider, Number(event.target.value)))}
          className="h-8 w-full cursor-pointer accent-[var(--accent)]"
        />
        {/* Value of the running platform. The thumb is 16 px wide, so the track starts after 8 px. */}
        <span
          aria-hidden="true"
          className="pointer-events-none absolute bottom-0 h-1.5 w-0.5 rounded bg-muted"
          style={{ left: `calc(8px + ${mark} * (100% - 16px))` }}
        />
      </div>
      <div className="flex justify-between text-faint">
        <span>{slider.ends[0]}</span>
        <span>{slider.ends[1]}</span>
      </div>
    </div>
  );
}

export function WhatIfSliders({ settings, now, onChange }: SlidersProps) {
  return (
    <div className="flex flex-col gap-3 text-12">
      {SLIDERS.map((slider) => (
        <One
          key={slider.key}
          slider={slider}
          value={settings[slider.key]}
          was={now[slider.key]}
          onChange={(value) => onChange({ ...settings, [slider.key]: value })}
        />
      ))}
    </div>
  );
}
