/** The deletion curve: the answer as more and more words are erased, beside erasing them by chance. */
import { PALETTE, type Theme } from "./colour";
import type { Paint, Picture } from "./paint";
import { percent } from "./text";

export interface Line {
  name: string;
  values: ArrayLike<number>;
  dashed: boolean;
  colour: string;
}

/** The curve in its colour and chance in grey. */
export function deletionLines(curve: ArrayLike<number>, chance: ArrayLike<number> | undefined, name: string): Line[] {
  const lines: Line[] = [{ name, values: curve, dashed: false, colour: PALETTE[0] }];
  if (chance) lines.push({ name: "by chance", values: chance, dashed: true, colour: PALETTE[6] });
  return lines;
}

export interface Axes {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Where a point of a curve lies: k words erased, probability p. */
export function placeOf(axes: Axes, k: number, count: number, p: number): [number, number] {
  const x = axes.left + ((axes.right - axes.left) * k) / Math.max(1, count);
  return [x, axes.bottom - (axes.bottom - axes.top) * p];
}

export function curvePicture(
  lines: readonly Line[],
  width: number,
  height: number,
  theme: Theme,
  at: number | null,
): Picture {
  const axes = { left: 44, top: 10, right: width - 12, bottom: height - 34 };
  const count = Math.max(0, ...lines.map(({ values }) => values.length - 1));
  return {
    width,
    height,
    draw: (paint) => {
      drawAxes(paint, axes, count, theme);
      for (const { values, colour, dashed } of lines) {
        const points = Array.from(values, (p, k) => placeOf(axes, k, count, p)).filter(([, y]) => Number.isFinite(y));
        paint.path(points, colour, 2, dashed);
      }
      if (at !== null && at <= count) {
        const [x] = placeOf(axes, at, count, 0);
        paint.path([[x, axes.top] as const, [x, axes.bottom] as const], theme.muted, 1, true);
      }
    },
  };
}

function drawAxes(paint: Paint, axes: Axes, count: number, theme: Theme): void {
  for (const p of [0, 0.5, 1]) {
    const [x, y] = placeOf(axes, 0, count, p);
    paint.path([[x, y] as const, [axes.right, y] as const], theme.line, 1);
    paint.text(x - 6, y, percent(p), { fill: theme.muted, size: 11, anchor: "end" });
  }
  const step = Math.max(1, Math.ceil(count / 8));
  for (let k = 0; k <= count; k += step) {
    const [x] = placeOf(axes, k, count, 0);
    paint.text(x, axes.bottom + 12, String(k), { fill: theme.muted, size: 11, anchor: "middle" });
  }
  const middle = (axes.left + axes.right) / 2;
  paint.text(middle, axes.bottom + 27, "words erased", { fill: theme.muted, size: 11, anchor: "middle" });
}
