/** Colour scales of the charts for both themes. */
import { mix } from "./color";
import { type ThemeName, TOKENS } from "./designTokens";

/** Seven steps of cyan for the compute intensity of a Gantt block. */
export function intensityRamp(theme: ThemeName): string[] {
  const [low, high] = theme === "dark" ? ["#17394B", "#22D3EE"] : ["#CFE7EC", "#157A8B"];
  return Array.from({ length: 7 }, (_, i) => mix(low, high, i / 6));
}

export function intensityStep(intensity: number): number {
  return Math.min(6, Math.max(0, Math.floor(intensity * 7)));
}

/** Colour of a GPU share between 0 and 1: amber for the CPU, cyan for the GPU. */
export function shareColor(share: number, theme: ThemeName): string {
  const { cpu, gpu } = TOKENS[theme];
  // Small marks need more contrast at the middle than the cells of a heatmap.
  const middle = theme === "dark" ? "#7488A8" : "#8A94A6";
  return share < 0.5 ? mix(cpu, middle, share * 2) : mix(middle, gpu, share * 2 - 1);
}

/** Colour of a heatmap cell between −1 (CPU, amber) and +1 (GPU, cyan). */
export function heatColor(value: number, theme: ThemeName): string {
  const { cpu, gpu, neutral } = TOKENS[theme];
  return value < 0 ? mix(neutral, cpu, -value) : mix(neutral, gpu, value);
}

/** Colour of a correlation: −1 blue, 0 grey, +1 red. */
export function correlationColor(value: number, theme: ThemeName): string {
  const [blue, grey, red] =
    theme === "dark" ? ["#2F6BDE", "#1E293B", "#C23B48"] : ["#6FA5F5", "#EEF1F6", "#F28B8B"];
  return value < 0 ? mix(grey, blue, -value) : mix(grey, red, value);
}
