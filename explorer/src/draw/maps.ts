/** Attention maps: one map of a run's arrays, its strongest links, what its rows look at, and its picture. */
import type { Tensor, TokenInfo } from "../protocol";
import type { Rgb, Theme } from "./colour";
import type { Paint, Picture, Pixels } from "./paint";
import type { Scale } from "./scale";
import { visible } from "./text";

/** A square of numbers: row i holds what token i looks at. */
export interface SquareMap {
  size: number;
  values: Float32Array;
}

/** The map of a layer and head (from 1) out of an array (l, h, t, t), or (l, t, t) which all heads of a layer share. */
export function mapIn(tensor: Tensor | undefined, layer: number, head: number): SquareMap | null {
  if (!tensor || !(tensor.values instanceof Float32Array)) return null;
  const { shape, values } = tensor;
  const size = shape.at(-1) ?? 0;
  const heads = shape.length === 4 ? shape[1]! : 1;
  const at = (layer - 1) * heads + (shape.length === 4 ? head - 1 : 0);
  const inside = layer >= 1 && layer <= shape[0]! && (shape.length === 3 || (head >= 1 && head <= heads));
  return inside ? { size, values: values.subarray(at * size * size, (at + 1) * size * size) } : null;
}

export interface Link {
  from: number;
  to: number;
  value: number;
}

/** The links of at least `least` without their sign, the strongest `most` of them, weakest first so that strong ones lie above. */
export function linksOf(map: SquareMap, least: number, most: number): Link[] {
  const found: Link[] = [];
  for (let from = 0; from < map.size; from++) {
    for (let to = 0; to < map.size; to++) {
      const value = map.values[from * map.size + to]!;
      if (Math.abs(value) >= least && value !== 0) found.push({ from, to, value });
    }
  }
  found.sort((a, b) => Math.abs(a.value) - Math.abs(b.value));
  return found.slice(Math.max(0, found.length - most));
}

/** The indices of a row's largest numbers, largest first. */
export function strongest(row: ArrayLike<number>, count: number): number[] {
  const order = Array.from({ length: row.length }, (_, i) => i).filter((i) => !Number.isNaN(row[i]!));
  return order.sort((a, b) => Math.abs(row[b]!) - Math.abs(row[a]!)).slice(0, count);
}

export const LOOKS = ["previous", "next", "itself", "first", "special"] as const;
export type Look = (typeof LOOKS)[number];

/** The share of a map that goes to the previous, the next and the same token, to the first, and to special tokens. */
export function looksOf(map: SquareMap, tokens: readonly TokenInfo[]): Record<Look, number> {
  const sums = { previous: 0, next: 0, itself: 0, first: 0, special: 0 };
  let all = 0;
  for (let i = 0; i < map.size; i++) {
    for (let j = 0; j < map.size; j++) {
      const value = map.values[i * map.size + j]!;
      if (Number.isNaN(value)) continue;
      all += value;
      if (j === i - 1) sums.previous += value;
      if (j === i + 1) sums.next += value;
      if (j === i) sums.itself += value;
      if (j === 0) sums.first += value;
      if (isSpecial(tokens[j])) sums.special += value;
    }
  }
  for (const look of LOOKS) sums[look] = all > 0 ? sums[look] / all : Number.NaN;
  return sums;
}

/** A place that weight goes to, in words: cells of the map, by row and column. */
interface Target {
  name: string;
  holds: (row: number, column: number) => boolean;
}

/** The places beside the diagonal, and the token that gets most; special tokens together where one of them does. */
function targetsOf(map: SquareMap, tokens: readonly TokenInfo[]): Target[] {
  const columns = new Float64Array(map.size);
  map.values.forEach((value, i) => {
    if (!Number.isNaN(value)) columns[i % map.size]! += value;
  });
  const most = strongest(columns, 1)[0] ?? 0;
  const only = (_row: number, column: number) => column === most;
  const special = (_row: number, column: number) => isSpecial(tokens[column]);
  const together = isSpecial(tokens[most]) && shareOf(map, special) > shareOf(map, only);
  const name = `“${visible(tokens[most]?.text ?? "", 20)}” (token ${most + 1})`;
  return [
    { name: "the token before", holds: (row, column) => column === row - 1 },
    { name: "the token after", holds: (row, column) => column === row + 1 },
    { name: "the token itself", holds: (row, column) => column === row },
    together ? { name: "special tokens", holds: special } : { name, holds: only },
  ];
}

/** The share of all weight that lies in some cells. */
function shareOf(map: SquareMap, holds: Target["holds"]): number {
  let own = 0;
  let all = 0;
  map.values.forEach((value, i) => {
    if (Number.isNaN(value)) return;
    all += value;
    if (holds(Math.floor(i / map.size), i % map.size)) own += value;
  });
  return all > 0 ? own / all : Number.NaN;
}

/** The place with the largest share, and that share. */
function largestOf(map: SquareMap, targets: readonly Target[]): [Target, number] {
  const shares = targets.map((target) => [target, shareOf(map, target.holds)] as [Target, number]);
  return shares.reduce((best, one) => (one[1] > best[1] ? one : best));
}

/** The mean over tokens of the largest share that one gives to a single token. */
function peakOf(map: SquareMap): number {
  const peaks: number[] = [];
  for (let i = 0; i < map.size; i++) {
    const row = map.values.subarray(i * map.size, (i + 1) * map.size).filter((value) => !Number.isNaN(value));
    const all = row.reduce((sum, value) => sum + value, 0);
    if (all > 0) peaks.push(Math.max(...row) / all);
  }
  return peaks.reduce((sum, peak) => sum + peak, 0) / peaks.length;
}

/** One sentence on what a map looks at; it names the token that gets most, wherever that stands, and counts no weight twice. */
export function sentenceOf(map: SquareMap, tokens: readonly TokenInfo[]): string {
  const targets = targetsOf(map, tokens);
  const [first, share] = largestOf(map, targets);
  if (!Number.isFinite(share)) return "";
  const others = targets.filter((target) => target !== first);
  const beside = others.map(({ name, holds }) => ({
    name,
    holds: (row: number, column: number) => holds(row, column) && !first.holds(row, column),
  }));
  const [second, rest] = largestOf(map, beside);
  const percents = (value: number) => `${Math.round(value * 100)} %`;
  const goes = `goes to ${first.name}, ${percents(rest)} to ${second.name}.`;
  if (share >= 0.3) return `${percents(share)} of its weight ${goes}`;
  const peak = peakOf(map);
  const start = peak < 0.3 ? "Its weight is spread" : "Each token looks elsewhere";
  return `${start}: a token's largest link has ${percents(peak)} of its weight on average; of all weight ${percents(share)} ${goes}`;
}

/** The share that a map would have in which each token looks at all alike. */
export function evenShare(look: Look, tokens: readonly TokenInfo[]): number {
  const count = tokens.length;
  if (look === "special") return tokens.filter(isSpecial).length / count;
  return look === "previous" || look === "next" ? (count - 1) / count ** 2 : 1 / count;
}

const SPECIAL = new Set(["cls", "sep", "special"]);

export function isSpecial(token: TokenInfo | undefined): boolean {
  return token !== undefined && (token.word === null || SPECIAL.has(token.kind));
}

/** The map as pixels, one for each cell. */
export function pixelsOf(values: ArrayLike<number>, columns: number, rgb: (value: number) => Rgb): Pixels {
  const data = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    const [red, green, blue] = rgb(values[i]!);
    data[i * 4] = red;
    data[i * 4 + 1] = green;
    data[i * 4 + 2] = blue;
    data[i * 4 + 3] = 255;
  }
  return { columns, rows: columns ? values.length / columns : 0, data };
}

/** A map of at most `most` cells a side, each the strongest of those that it stands for, so that nothing strong is lost. */
export function pooled(map: SquareMap, most: number): SquareMap {
  const size = Math.min(map.size, Math.max(1, Math.floor(most)));
  if (size === map.size) return map;
  const values = new Float32Array(size * size).fill(Number.NaN);
  for (let row = 0; row < map.size; row++) {
    const start = Math.floor((row * size) / map.size) * size;
    for (let column = 0; column < map.size; column++) {
      const at = start + Math.floor((column * size) / map.size);
      const value = map.values[row * map.size + column]!;
      if (!(Math.abs(values[at]!) >= Math.abs(value))) values[at] = value;
    }
  }
  return { size, values };
}

export interface MatrixLayout {
  /** Room for the names on the left. */
  margin: number;
  /** Room for the numbers on top. */
  top: number;
  cell: number;
  side: number;
  size: number;
  names: boolean;
}

/** Where the cells of a matrix lie in a room of this width: names where they can be read, cells of at least a pixel. */
export function matrixLayout(size: number, room: number): MatrixLayout {
  const named = Math.min(96, room * 0.28);
  const names = size > 0 && (room - named) / size >= 10;
  const margin = names ? named : 4;
  const cell = size > 0 ? Math.min(28, (room - margin - 2) / size) : 0;
  return { margin, top: names ? 18 : 4, cell, side: cell * size, size, names };
}

/** The pixels of a matrix: no more than there is room for. */
export function matrixPixels(map: SquareMap, scale: Scale, layout: MatrixLayout): Pixels {
  const small = pooled(map, layout.side);
  return pixelsOf(small.values, small.size, scale.rgb);
}

/** The row and column at a place in the picture; null outside of the cells. */
export function cellAt(layout: MatrixLayout, x: number, y: number): { row: number; column: number } | null {
  const column = Math.floor((x - layout.margin) / layout.cell);
  const row = Math.floor((y - layout.top) / layout.cell);
  const inside = (place: number) => place >= 0 && place < layout.size;
  return inside(row) && inside(column) ? { row, column } : null;
}

export interface MatrixMarks {
  row: number | null;
  column: number | null;
}

/** The matrix with its names and the row and cell that are selected. */
export function matrixPicture(
  pixels: Pixels,
  names: readonly string[],
  layout: MatrixLayout,
  theme: Theme,
  marks: MatrixMarks,
): Picture {
  const { margin, top, cell, side } = layout;
  return {
    width: Math.ceil(margin + side + 2),
    height: Math.ceil(top + side + 2),
    draw: (paint) => {
      paint.image(margin, top, side, side, pixels);
      if (layout.names) drawNames(paint, names, layout, theme, marks);
      if (marks.row !== null) paint.frame(margin, top + marks.row * cell, side, cell, theme.ink, 1.5);
      if (marks.column !== null) paint.frame(margin + marks.column * cell, top, cell, side, theme.ink, 1);
    },
  };
}

function drawNames(
  paint: Paint,
  names: readonly string[],
  layout: MatrixLayout,
  theme: Theme,
  marks: MatrixMarks,
): void {
  const { margin, top, cell } = layout;
  const size = Math.min(12, cell);
  names.forEach((name, i) => {
    const middle = top + (i + 0.5) * cell;
    const chosen = marks.row === i;
    const style = { fill: chosen ? theme.accent : theme.ink, size, width: margin - 8, bold: chosen };
    paint.text(margin - 6, middle, visible(name, 16), { ...style, anchor: "end" });
  });
  // Names on top would be turned; a few numbers of tokens say the same without turned heads.
  const step = Math.max(1, Math.ceil(24 / cell));
  for (let i = 0; i < names.length; i += step) {
    const fill = marks.column === i ? theme.accent : theme.muted;
    paint.text(margin + (i + 0.5) * cell, top - 8, String(i + 1), { fill, size: 10, anchor: "middle" });
  }
}
