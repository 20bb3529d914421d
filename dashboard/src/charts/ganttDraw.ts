/** Drawing of a Gantt chart on a canvas: visible blocks only, and at most one mark per pixel. */
import { alpha, mix } from "../lib/color";
import { intensityRamp, intensityStep } from "../lib/colorScales";
import { moment } from "../lib/format";
import { ticks } from "../lib/statistics";
import type { Paint } from "./ChartCanvas";
import { FONT, FONT_STRONG } from "./ChartCanvas";
import { label, linearScale, vertical } from "./canvasAxes";
import { busyUpTo, countBetween, type GanttLane, type GanttModel, visit } from "./ganttModel";

const patterns = new Map<string, CanvasPattern | null>();

function hatch(context: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  let pattern = patterns.get(color);
  if (pattern === undefined) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const inner = tile.getContext("2d");
    if (inner) {
      inner.strokeStyle = color;
      inner.lineWidth = 1.2;
      inner.beginPath();
      inner.moveTo(-1, 7);
      inner.lineTo(7, -1);
      inner.stroke();
    }
    pattern = context.createPattern(tile, "repeat");
    patterns.set(color, pattern);
  }
  return pattern ?? color;
}

/** Draws one column per pixel: opacity is the busy share, colour the mean intensity. */
function drawDensity(paint: Paint, model: GanttModel, lane: GanttLane, y: number, ramp: readonly string[]): void {
  const { context, size, tokens } = paint;
  const perPixel = (model.to - model.from) / size.width;
  let before = busyUpTo(lane, model.from);
  let weightBefore = busyUpTo(lane, model.from, true);
  for (let x = 0; x < size.width; x++) {
    const edge = model.from + (x + 1) * perPixel;
    const after = busyUpTo(lane, edge);
    const weightAfter = busyUpTo(lane, edge, true);
    const share = (after - before) / perPixel;
    if (share > 0.02) {
      const color = ramp[intensityStep((weightAfter - weightBefore) / (after - before))] as string;
      context.fillStyle = mix(tokens.track, color, Math.min(1, share));
      context.fillRect(x, y + 2, 1, model.laneHeight - 4);
    }
    before = after;
    weightBefore = weightAfter;
  }
}

/** Draws a heat strip: every column has the colour of its exact busy share, queued work after `now` is paler. */
function drawHeat(paint: Paint, model: GanttModel, lane: GanttLane, y: number, ramp: readonly string[]): void {
  const { heat } = lane;
  if (!heat) return;
  const { context, size, tokens } = paint;
  const x = linearScale(model.from, model.to, 0, size.width);
  const bright = ramp[4] as string;
  const height = model.laneHeight - 4;
  const first = Math.max(0, Math.floor((model.from - heat.start) / heat.width));
  const last = Math.min(heat.sums.length - 1, Math.ceil((model.to - heat.start) / heat.width));
  for (let i = first; i < last; i++) {
    const share = ((heat.sums[i + 1] as number) - (heat.sums[i] as number)) / heat.width;
    if (share <= 0) continue;
    const begin = heat.start + i * heat.width;
    const left = Math.max(0, x(begin));
    const queued = begin >= model.now ? 0.4 : 1;
    context.fillStyle = mix(tokens.track, bright, Math.min(1, share) * queued);
    context.fillRect(left, y + 2, Math.max(0.6, Math.min(size.width, x(begin + heat.width)) - left + 0.3), height);
  }
}

function drawBlocks(paint: Paint, model: GanttModel, lane: GanttLane, y: number, ramp: readonly string[]): void {
  const { context, size } = paint;
  const x = linearScale(model.from, model.to, 0, size.width);
  const height = model.laneHeight - 4;
  visit(lane, model.from, model.to, (source, i) => {
    const left = Math.max(-4, x(source.start(i)));
    const right = Math.min(size.width + 4, x(source.end(i)));
    const width = Math.max(1, right - left - 1);
    const color = ramp[intensityStep(source.intensity(i))] as string;
    const round = Math.min(3, width / 2, height / 2);
    context.beginPath();
    context.roundRect(left, y + 2, width, height, round);
    if (source.start(i) > model.now) {
      const bright = ramp[4] as string;
      context.fillStyle = hatch(context, bright);
      context.fill();
      context.strokeStyle = bright;
      context.lineWidth = 1;
      context.stroke();
    } else {
      context.fillStyle = color;
      context.fill();
    }
  });
}

/** Draws an amber edge and tint over the times in which tasks take longer on a lane. */
function drawSlow(paint: Paint, model: GanttModel, lane: GanttLane, y: number): void {
  const { slow } = model;
  if (!slow?.devices.has(lane.device)) return;
  const { context, size, tokens } = paint;
  const x = linearScale(model.from, model.to, 0, size.width);
  for (const [begin, end] of slow.spans) {
    const [left, right] = [Math.max(0, x(begin)), Math.min(size.width, x(end))];
    if (right <= left) continue;
    context.fillStyle = alpha(tokens.warn, 0.14);
    context.fillRect(left, y, right - left, model.laneHeight);
    context.fillStyle = tokens.warn;
    context.fillRect(left, y - 1, right - left, 2);
    context.fillRect(left, y + model.laneHeight - 1, right - left, 2);
    context.font = FONT;
    const wide = context.measureText(slow.label).width + 10;
    if (right - left < wide || model.laneHeight < 20) continue;
    context.fillStyle = alpha(tokens.panel, 0.9);
    context.fillRect(left, y + model.laneHeight / 2 - 8, wide, 16);
    label(context, slow.label, left + 5, y + model.laneHeight / 2, tokens, "left", tokens.warn);
  }
}

/** Draws a small triangle under the lanes where drift was found. */
function drawDrifts(paint: Paint, model: GanttModel, bottom: number): void {
  const { context, size, tokens } = paint;
  const x = linearScale(model.from, model.to, 0, size.width);
  context.fillStyle = tokens.warn;
  for (const at of model.drifts) {
    if (at < model.from || at > model.to) continue;
    context.beginPath();
    context.moveTo(x(at), bottom - 5);
    context.lineTo(x(at) + 5, bottom + 4);
    context.lineTo(x(at) - 5, bottom + 4);
    context.fill();
  }
}

function drawSelected(paint: Paint, model: GanttModel): void {
  if (model.selected === null) return;
  const { context, size, tokens } = paint;
  const x = linearScale(model.from, model.to, 0, size.width);
  const boxes: { left: number; y: number }[] = [];
  model.lanes.forEach((lane, index) => {
    const y = model.top + index * model.pitch;
    visit(lane, model.from, model.to, (source, i) => {
      if (source.task(i) !== model.selected) return;
      const left = x(source.start(i));
      context.beginPath();
      context.roundRect(left - 1, y + 1, Math.max(4, x(source.end(i)) - left) + 1, model.laneHeight - 2, 4);
      context.strokeStyle = tokens.text;
      context.lineWidth = 2;
      context.stroke();
      boxes.push({ left, y });
    });
  });
  const [first, second] = boxes;
  if (first && second) {
    context.setLineDash([2, 3]);
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(Math.max(first.left, 0) + 1, first.y + model.laneHeight);
    context.lineTo(Math.max(first.left, 0) + 1, second.y);
    context.stroke();
    context.setLineDash([]);
  }
}

function drawLine(paint: Paint, model: GanttModel, t: number, text: string, dashed: boolean, row: number): void {
  if (t < model.from || t > model.to) return;
  const { context, size, tokens } = paint;
  const x = Math.round(linearScale(model.from, model.to, 0, size.width)(t)) + 0.5;
  const bottom = model.top + model.lanes.length * model.pitch;
  context.strokeStyle = tokens.text;
  context.lineWidth = 1.5;
  context.setLineDash(dashed ? [4, 3] : []);
  context.beginPath();
  context.moveTo(x, row === 0 ? 16 : 28);
  context.lineTo(x, bottom);
  context.stroke();
  context.setLineDash([]);
  const textWidth = context.measureText(text).width;
  label(
    context,
    text,
    Math.min(size.width, Math.max(textWidth, x + 4)),
    row === 0 ? 7 : 21,
    tokens,
    "right",
    row === 0 ? tokens.text : tokens.muted,
  );
}

const seconds = (t: number, step: number): string =>
  `${t.toFixed(step < 1 ? Math.min(3, Math.ceil(-Math.log10(step))) : 0)} s`;

/** Draws the chart without the labels at its sides, which are HTML. */
export function drawGantt(paint: Paint, model: GanttModel): void {
  const { context, size, theme, tokens } = paint;
  const ramp = intensityRamp(theme);
  const x = linearScale(model.from, model.to, 0, size.width);
  const bottom = model.top + model.lanes.length * model.pitch;
  const marks = ticks(model.from, model.to, size.width > 480 ? 7 : 4);
  const step = marks.length > 1 ? (marks[1] as number) - (marks[0] as number) : 1;
  model.lanes.forEach((lane, index) => {
    const y = model.top + index * model.pitch;
    context.fillStyle = tokens.track;
    context.beginPath();
    context.roundRect(0, y, size.width, model.laneHeight, 4);
    context.fill();
    if (lane.heat) drawHeat(paint, model, lane, y, ramp);
    else if (countBetween(lane, model.from, model.to) > size.width * 0.75) drawDensity(paint, model, lane, y, ramp);
    else drawBlocks(paint, model, lane, y, ramp);
    drawSlow(paint, model, lane, y);
  });
  context.font = FONT;
  const nowX = x(model.now);
  const nowVisible = model.now >= model.from && model.now <= model.to;
  for (const mark of marks) {
    vertical(context, x(mark), model.top, bottom, tokens.hair);
    const clear = !nowVisible || Math.abs(x(mark) - nowX) > 36;
    const text = seconds(mark, step);
    const half = context.measureText(text).width / 2;
    if (clear && x(mark) >= half && x(mark) <= size.width - half)
      label(context, text, x(mark), bottom + 10, tokens);
  }
  drawDrifts(paint, model, bottom);
  drawSelected(paint, model);
  if (model.crosshair !== null && model.crosshair >= model.from && model.crosshair <= model.to) {
    vertical(context, x(model.crosshair), model.top, bottom, tokens.accent);
  }
  if (nowVisible) {
    vertical(context, nowX, model.top - 6, bottom + 2, tokens.muted);
    context.font = FONT_STRONG;
    label(
      context,
      model.nowLabel ?? "now",
      Math.min(size.width - 14, Math.max(14, nowX)),
      bottom + 10,
      tokens,
      "center",
      tokens.text,
    );
    context.font = FONT;
  }
  if (model.bound) drawLine(paint, model, model.bound.at, `bound ${moment(model.bound.value)}`, true, 1);
  if (model.makespan)
    drawLine(paint, model, model.makespan.at, `makespan ${moment(model.makespan.value)}`, false, 0);
}
