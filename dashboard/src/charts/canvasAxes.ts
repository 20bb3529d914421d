/** Scales, grid lines and labels of canvas charts. */
import type { Tokens } from "../lib/designTokens";

export type Scale = (value: number) => number;

export const linearScale =
  (low: number, high: number, from: number, to: number): Scale =>
  (value) =>
    from + ((value - low) / (high - low || 1)) * (to - from);

export function logScale(low: number, high: number, from: number, to: number): Scale {
  const [a, b] = [Math.log(low), Math.log(high)];
  return (value) => from + ((Math.log(value) - a) / (b - a || 1)) * (to - from);
}

/** 1, 2 and 5 times powers of ten between the bounds. */
export function logTicks(low: number, high: number): number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(Number(value.toPrecision(6)));
    }
  }
  return found;
}

export function vertical(
  context: CanvasRenderingContext2D,
  x: number,
  top: number,
  bottom: number,
  color: string,
): void {
  context.fillStyle = color;
  context.fillRect(Math.round(x), top, 1, bottom - top);
}

export function horizontal(
  context: CanvasRenderingContext2D,
  y: number,
  left: number,
  right: number,
  color: string,
): void {
  context.fillStyle = color;
  context.fillRect(left, Math.round(y), right - left, 1);
}

export function label(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  tokens: Tokens,
  align: CanvasTextAlign = "center",
  color: string = tokens.faint,
): void {
  context.fillStyle = color;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(text, x, y);
}
