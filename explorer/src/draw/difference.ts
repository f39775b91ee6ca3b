/** B minus A: where there is one, and why there is none. */
import type { ModelInfo, RunData, Tensor } from "../protocol";
import type { SquareMap } from "./maps";

/** One line on why two runs have no difference of maps; null where they have one. */
export function whyNot(a: RunData, b: RunData): string | null {
  if (a.tokens.length === b.tokens.length) return null;
  return `B − A needs as many tokens in both texts: A has ${a.tokens.length}, B has ${b.tokens.length}. Show A or B instead.`;
}

/** One line on why heads of two models have no difference; null where their shapes are equal. */
export function whyNotHeads(a: ModelInfo | null, b: ModelInfo | null): string | null {
  if (!a || !b || (a.layers === b.layers && String(a.heads) === String(b.heads))) return null;
  const shape = (model: ModelInfo) => `${model.layers} layers of ${Math.max(0, ...model.heads)} heads`;
  return `B − A needs models of the same shape: A has ${shape(a)}, B has ${shape(b)}. Show A or B instead.`;
}

/** B minus A, number by number; null where their sizes differ. */
export function minus(b: ArrayLike<number>, a: ArrayLike<number>): Float32Array | null {
  return b.length === a.length ? Float32Array.from(b, (value, i) => value - a[i]!) : null;
}

export function mapMinus(b: SquareMap, a: SquareMap): SquareMap | null {
  const values = b.size === a.size ? minus(b.values, a.values) : null;
  return values && { size: a.size, values };
}

export function tensorMinus(b: Tensor | undefined, a: Tensor | undefined): Tensor | undefined {
  if (!a || !b || String(a.shape) !== String(b.shape)) return undefined;
  const values = minus(b.values, a.values);
  return values ? { shape: a.shape, values } : undefined;
}

/** The name of token i of both sides: one name where both are the same. */
export function bothNames(a: string, b: string): string {
  return a === b ? a : `${a} → ${b}`;
}
