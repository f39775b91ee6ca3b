/** The grid of layers and heads: where its cells lie, and what is drawn in them. */
import type { Tensor } from "../protocol";
import { css, inkOn, rgbOf, type Theme } from "./colour";
import { GATE_LOOKS, kindsIn } from "./gates";
import { pixelsOf } from "./maps";
import type { Paint, Picture } from "./paint";
import { rootScale, type Scale, signedScale } from "./scale";
import { figure } from "./text";

export interface GridLayout {
  layers: number;
  heads: number;
  cell: number;
  left: number;
  top: number;
  width: number;
  height: number;
}

const GAP = 3;
const SIDE = 26;

/** Cells that fill the room, but neither so large nor so small that nothing is seen. */
export function gridLayout(layers: number, heads: number, room: number, tall = Number.POSITIVE_INFINITY): GridLayout {
  const fit = (size: number, count: number) => Math.floor(size / Math.max(1, count)) - GAP;
  const cell = Math.max(20, Math.min(72, fit(room - SIDE, heads), Math.max(32, fit(tall - 20, layers))));
  const size = (count: number) => count * (cell + GAP);
  return { layers, heads, cell, left: SIDE, top: 20, width: SIDE + size(heads), height: 20 + size(layers) };
}

/** The left upper corner of a head's cell (layer and head from 1). */
export function cornerOf(layout: GridLayout, layer: number, head: number): [number, number] {
  const step = layout.cell + GAP;
  return [layout.left + (head - 1) * step, layout.top + (layer - 1) * step];
}

export type Cell =
  | { kind: "map"; side: number; values: ArrayLike<number>; signed: boolean }
  | { kind: "value"; value: number; text: string }
  | { kind: "gate"; name: string | null }
  | { kind: "none" };

export interface GridMarks {
  layer: number;
  head: number;
  ablated: readonly (readonly [number, number])[];
}

/** The picture of the grid: `cellOf` says what each head shows, `scale` colours its values. */
export function gridPicture(
  layout: GridLayout,
  cellOf: (layer: number, head: number) => Cell,
  scale: Scale,
  theme: Theme,
  marks: GridMarks,
): Picture {
  return {
    width: layout.width,
    height: layout.height,
    draw: (paint) => {
      drawRulers(paint, layout, theme);
      for (let layer = 1; layer <= layout.layers; layer++) {
        for (let head = 1; head <= layout.heads; head++) {
          drawCell(paint, layout, cellOf(layer, head), cornerOf(layout, layer, head), scale, theme);
        }
      }
      for (const [layer, head] of marks.ablated) drawCross(paint, layout, cornerOf(layout, layer, head), theme);
      // On the screen the selected head is marked by its button.
      if (marks.layer < 1) return;
      const [x, y] = cornerOf(layout, marks.layer, marks.head);
      paint.frame(x - 1.5, y - 1.5, layout.cell + 3, layout.cell + 3, theme.ink, 2.5);
    },
  };
}

function drawRulers(paint: Paint, layout: GridLayout, theme: Theme): void {
  const style = { fill: theme.muted, size: 11 } as const;
  for (let layer = 1; layer <= layout.layers; layer++) {
    const [, y] = cornerOf(layout, layer, 1);
    paint.text(layout.left - 8, y + layout.cell / 2, String(layer), { ...style, anchor: "end" });
  }
  for (let head = 1; head <= layout.heads; head++) {
    const [x] = cornerOf(layout, 1, head);
    paint.text(x + layout.cell / 2, 10, String(head), { ...style, anchor: "middle" });
  }
}

function drawCell(
  paint: Paint,
  { cell: size }: GridLayout,
  cell: Cell,
  [x, y]: [number, number],
  scale: Scale,
  theme: Theme,
): void {
  if (cell.kind === "none") {
    paint.rect(x, y, size, size, theme.shade);
  } else if (cell.kind === "map") {
    paint.image(x, y, size, size, pixelsOf(cell.values, cell.side, ownScale(cell).rgb));
  } else if (cell.kind === "gate") {
    drawGate(paint, size, cell.name, x, y);
  } else {
    const rgb = scale.rgb(cell.value);
    paint.rect(x, y, size, size, css(rgb));
    const style = { fill: inkOn(rgb), size: Math.max(8, Math.min(12, size / 3.2)), anchor: "middle" } as const;
    if (size >= 24) paint.text(x + size / 2, y + size / 2, cell.text, style);
  }
}

/** Each map has a scale of its own, as in the report: its largest weight is brightest. */
function ownScale(cell: { values: ArrayLike<number>; signed: boolean }): Scale {
  let most = 0;
  for (let i = 0; i < cell.values.length; i++) most = Math.max(most, Math.abs(cell.values[i]!) || 0);
  return cell.signed ? signedScale(most) : rootScale(most);
}

function drawGate(paint: Paint, size: number, name: string | null, x: number, y: number): void {
  const kinds = kindsIn(name);
  const shown = kinds.length ? kinds : (["mixed"] as const);
  const height = size / shown.length;
  shown.forEach((kind, i) => {
    paint.rect(x, y + i * height, size, height, GATE_LOOKS[kind].colour);
    const style = {
      fill: inkOn(rgbOf(GATE_LOOKS[kind].colour)),
      size: Math.min(13, height - 2),
      anchor: "middle",
    } as const;
    paint.text(x + size / 2, y + (i + 0.5) * height, GATE_LOOKS[kind].letter, style);
  });
}

function drawCross(paint: Paint, { cell }: GridLayout, [x, y]: [number, number], theme: Theme): void {
  for (const [width, colour] of [
    [5, theme.paper],
    [2, theme.ink],
  ] as const) {
    paint.path([[x + 3, y + 3] as const, [x + cell - 3, y + cell - 3] as const], colour, width);
    paint.path([[x + cell - 3, y + 3] as const, [x + 3, y + cell - 3] as const], colour, width);
  }
}

/** The number of a head (from 1) in an array (l, h); NaN where it has none. */
export function valueAt(tensor: Tensor | undefined, layer: number, head: number): number {
  if (!tensor) return Number.NaN;
  const [layers = 0, heads = 0] = tensor.shape;
  if (layer < 1 || head < 1 || layer > layers || head > heads) return Number.NaN;
  return tensor.values[(layer - 1) * heads + head - 1] ?? Number.NaN;
}

/** The thumbnail of a head (from 1), as weights. */
export function thumbAt(
  tensor: Tensor | undefined,
  layer: number,
  head: number,
): { side: number; values: Float32Array } | null {
  const [layers = 0, heads = 0, side = 0] = tensor?.shape ?? [];
  if (!tensor || layer < 1 || head < 1 || layer > layers || head > heads) return null;
  const start = ((layer - 1) * heads + head - 1) * side * side;
  const raw = tensor.values.subarray(start, start + side * side);
  return { side, values: Float32Array.from(raw, (value) => value / 255) };
}

/** The number of a cell in as many characters as fit into it. */
export function shortFigure(value: number): string {
  return figure(value)
    .replace(/^(−?)0\./, "$1.")
    .slice(0, 5);
}
