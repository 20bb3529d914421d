import type { KeyboardEvent } from "react";

/** Value that a key asks for, kept within bounds; handles the event if the key is one of those given. */
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
