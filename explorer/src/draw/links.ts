/** Tokens in two columns and what goes between them: on the left who looks, on the right what is looked at. */
import type { Theme } from "./colour";
import { css, PALETTE, rgbOf } from "./colour";
import { type Link, linksOf, type SquareMap } from "./maps";
import type { Paint, Picture } from "./paint";
import { figure, visible } from "./text";

export interface LinksLayout {
  width: number;
  height: number;
  row: number;
  /** The x of the ends of the links. */
  left: number;
  right: number;
  /** The room of bars and numbers at the right edge. */
  bar: number;
}

/** Beyond this many tokens only the strongest links are drawn. */
export const DENSE = 64;
/** The most links that are drawn of a dense map. */
export const MOST = 1500;
/** The mean width of a letter of the names. */
const LETTER = 7.4;
/** The room of the bars, and of the numbers in it. */
const [NARROW, WIDE, FIGURE] = [58, 100, 36];

/** Where rows lie: lower ones for long texts; `longest` is the number of letters of the longest name. */
export function linksLayout(size: number, width: number, longest = 20): LinksLayout {
  const row = size <= 32 ? 24 : size <= 128 ? 20 : 15;
  const label = Math.max(48, Math.min(longest * LETTER + 16, 130, width * 0.27));
  const bar = width >= 400 ? WIDE : NARROW;
  return { width, height: size * row + 8, row, left: label, right: width - label - bar, bar };
}

export function rowAt(layout: LinksLayout, y: number, size: number): number | null {
  const row = Math.floor((y - 4) / layout.row);
  return row >= 0 && row < size ? row : null;
}

/** What is pointed at: a token that looks, or one that is looked at. */
export interface Focus {
  row: number;
  side: "from" | "to";
}

export interface LinksOptions {
  theme: Theme;
  focus: Focus | null;
  most: number;
  special: readonly boolean[];
  signed: boolean;
}

/** The part of the rows that is to be seen: a long text is higher than any window, and than what canvases may be. */
export interface Part {
  top: number;
  height: number;
}

/** The links of a map that are drawn: all of a short text, of a long one the strongest. */
export function linksShown(map: SquareMap, least: number): Link[] {
  return linksOf(map, least, map.size > DENSE ? MOST : map.size * map.size);
}

/** The picture of a map's links; with a focus, those of its token stand out and have their numbers. */
export function linksPicture(
  map: SquareMap,
  links: readonly Link[],
  names: readonly string[],
  layout: LinksLayout,
  options: LinksOptions,
  part: Part = { top: 0, height: layout.height },
): Picture {
  const moved = { ...layout, start: 4 - part.top, end: part.height };
  const seen = (row: number) => {
    const y = middleOf(moved, row);
    return y > -layout.row && y < part.height + layout.row;
  };
  return {
    width: layout.width,
    height: part.height,
    draw: (paint) => {
      for (const link of links) if (crosses(link, moved)) drawLink(paint, link, moved, options);
      if (options.focus) drawFocus(paint, map, moved, options, options.focus);
      names.forEach((name, i) => {
        if (seen(i)) drawName(paint, name, i, moved, options);
      });
    },
  };
}

/** A layout as it is drawn: its first row may lie above the part that is seen. */
interface Placed extends LinksLayout {
  start: number;
  end: number;
}

function middleOf(layout: Placed, row: number): number {
  return layout.start + (row + 0.5) * layout.row;
}

/** Whether any of a link lies in the part that is seen. */
function crosses({ from, to }: Link, layout: Placed): boolean {
  const [y0, y1] = [middleOf(layout, from), middleOf(layout, to)];
  return Math.max(y0, y1) > 0 && Math.min(y0, y1) < layout.end;
}

function belongs(link: Link, focus: Focus): boolean {
  return focus.side === "from" ? link.from === focus.row : link.to === focus.row;
}

/** Of differences, orange for more and blue for less, as in the matrix. */
function colourOf(value: number, { theme, signed }: LinksOptions): string {
  if (signed && value >= 0) return PALETTE[1];
  return theme.dark ? PALETTE[5] : PALETTE[0];
}

function drawLink(paint: Paint, link: Link, layout: Placed, options: LinksOptions): void {
  const { focus, most } = options;
  const share = most > 0 ? Math.abs(link.value) / most : 0;
  // With a focus the others stay as a faint ground.
  const alpha = focus ? 0.05 : 0.08 + 0.72 * share;
  if (focus && belongs(link, focus)) return;
  const [y0, y1] = [middleOf(layout, link.from), middleOf(layout, link.to)];
  paint.link(layout.left, y0, layout.right, y1, colourOf(link.value, options), 0.75 + 2.75 * share, alpha);
}

function drawFocus(paint: Paint, map: SquareMap, layout: Placed, options: LinksOptions, focus: Focus): void {
  const { theme, most } = options;
  for (let i = 0; i < map.size; i++) {
    const [from, to] = focus.side === "from" ? [focus.row, i] : [i, focus.row];
    const value = map.values[from * map.size + to]!;
    if (!Number.isFinite(value)) continue;
    const share = most > 0 ? Math.abs(value) / most : 0;
    const [y0, y1] = [middleOf(layout, from), middleOf(layout, to)];
    const colour = colourOf(value, options);
    if (share > (map.size > DENSE ? 0.04 : 0.004) && crosses({ from, to, value }, layout))
      paint.link(layout.left, y0, layout.right, y1, colour, 0.75 + 3.5 * share, 0.15 + 0.8 * share);
    const y = middleOf(layout, i);
    if (y > -layout.row && y < layout.end + layout.row) drawBar(paint, value, share, y, layout, colour, theme);
  }
}

function drawBar(
  paint: Paint,
  value: number,
  share: number,
  y: number,
  layout: Placed,
  colour: string,
  theme: Theme,
): void {
  const left = layout.width - layout.bar + 4;
  const height = Math.min(12, layout.row - 4);
  paint.rect(left, y - height / 2, Math.max(0.5, share * (layout.bar - FIGURE - 4)), height, colour);
  // Beside a weight of a half, one of a millionth is nothing.
  const text = share < 0.0005 ? "0" : figure(value);
  paint.text(layout.width - 2, y, text, {
    fill: theme.muted,
    size: Math.min(11, layout.row - 3),
    anchor: "end",
  });
}

function drawName(paint: Paint, name: string, i: number, layout: Placed, options: LinksOptions): void {
  const { theme, focus, special } = options;
  const y = middleOf(layout, i);
  const size = Math.min(13, layout.row - 3);
  const room = layout.left - 10;
  const fill = special[i] ? theme.muted : theme.ink;
  const chosen = (side: Focus["side"]) => focus?.row === i && focus.side === side;
  const ground = css(rgbOf(theme.accent));
  if (chosen("from")) paint.rect(0, y - layout.row / 2 + 1, layout.left - 4, layout.row - 2, ground, 0.18);
  if (chosen("to")) paint.rect(layout.right + 4, y - layout.row / 2 + 1, room + 4, layout.row - 2, ground, 0.18);
  const text = visible(name, 20);
  paint.text(layout.left - 8, y, text, { fill, size, anchor: "end", width: room, bold: chosen("from") });
  paint.text(layout.right + 8, y, text, { fill, size, width: room, bold: chosen("to") });
}
