import type { KeyboardEvent } from "react";

/** Handles a key of a slider: moves to the value of the key, limited to the bounds. Ignores other keys. */
export function handleSliderKey(
  event: KeyboardEvent,
  values: Readonly<Record<string, number>>,
  low: number,
  high: number,
  move: (value: number) => void,
): void {
  const next = values[event.key];
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  move(Math.min(high, Math.max(low, next)));
}
