/** The parts of a logit difference as steps that end in the total. */
import type { Reply, Tensor } from "../protocol";

export interface StreamData {
  class: number;
  other: number;
  difference: number | null;
  rest: number | null;
  labels: string[];
}

export type StreamReply = Reply<StreamData>;
export type Kind = "embeddings" | "heads" | "forward" | "bias" | "rest";

export interface Step {
  kind: Kind;
  /** The layer that the part is of, from 1; null for what no layer adds. */
  layer: number | null;
  value: number;
  from: number;
  to: number;
}

export interface Parts {
  embeddings: number;
  /** By layer; NaN where a layer has no head of that number. */
  heads: number[][];
  /** By layer; NaN where a layer has no feed-forward part. */
  forward: number[];
  bias: number;
  rest: number;
  total: number;
}

/** The parts of a reply; with `sign` −1 those of the difference the other way round. */
export function partsOf(reply: StreamReply, sign: 1 | -1 = 1): Parts {
  const { embeddings, heads, forward, bias } = reply.arrays;
  return {
    embeddings: sign * sum(values(embeddings)),
    heads: rows(heads).map((row) => row.map((value) => sign * value)),
    forward: values(forward).map((value) => sign * value),
    bias: sign * sum(values(bias)),
    rest: sign * (reply.data.rest ?? 0),
    total: sign * (reply.data.difference ?? Number.NaN),
  };
}

/** b − a, part by part; a part that one of them lacks counts as 0, and one that both lack stays NaN. */
export function minus(b: Parts, a: Parts): Parts {
  const less = (x: number | undefined, y: number | undefined) => {
    const [known, other] = [finite(x), finite(y)];
    return known === null && other === null ? Number.NaN : (known ?? 0) - (other ?? 0);
  };
  const each = (x: number[], y: number[]) =>
    Array.from({ length: Math.max(x.length, y.length) }, (_, i) => less(x[i], y[i]));
  const layers = Math.max(a.heads.length, b.heads.length);
  return {
    embeddings: b.embeddings - a.embeddings,
    heads: Array.from({ length: layers }, (_, l) => each(b.heads[l] ?? [], a.heads[l] ?? [])),
    forward: each(b.forward, a.forward),
    bias: b.bias - a.bias,
    rest: b.rest - a.rest,
    total: b.total - a.total,
  };
}

/** The steps in the order of computation, each beginning where the one before ended. */
export function waterfall(parts: Parts): Step[] {
  const steps: Step[] = [];
  let level = 0;
  const add = (kind: Kind, layer: number | null, value: number) => {
    steps.push({ kind, layer, value, from: level, to: level + value });
    level += value;
  };
  add("embeddings", null, parts.embeddings);
  const layers = Math.max(parts.heads.length, parts.forward.length);
  // A model without feed-forward parts has exactly nothing of them.
  const forward = parts.forward.some((value) => Number.isFinite(value) && value !== 0);
  for (let l = 0; l < layers; l++) {
    const heads = (parts.heads[l] ?? []).filter(Number.isFinite);
    if (heads.length) add("heads", l + 1, sum(heads));
    if (forward && Number.isFinite(parts.forward[l] ?? Number.NaN)) add("forward", l + 1, parts.forward[l]!);
  }
  add("bias", null, parts.bias);
  add("rest", null, parts.rest);
  return steps;
}

/** What the steps miss of the total: 0 up to rounding, or the parts are not all there. */
export function missing(steps: Step[], total: number): number {
  return total - (steps.at(-1)?.to ?? 0);
}

/** Whether the steps end in the total, up to the rounding of single precision at the size of the largest step. */
export function adds(steps: Step[], total: number): boolean {
  const size = Math.max(1, ...steps.map(({ from, to }) => Math.max(Math.abs(from), Math.abs(to))));
  return Math.abs(missing(steps, total)) <= 1e-4 * size;
}

/** The least and the largest level, 0 and the total among them. */
export function range(steps: Step[], total: number): [number, number] {
  const levels = [0, total, ...steps.flatMap(({ from, to }) => [from, to])].filter(Number.isFinite);
  const [low, high] = [Math.min(...levels), Math.max(...levels)];
  return low === high ? [low - 1, high + 1] : [low, high];
}

/** Whether blue and orange change places: of two classes each has the colour here that it has among the cones. */
export function isTurned(data: StreamData): boolean {
  return data.labels.length === 2 && data.class === 1;
}

/** How two sides' differences are to be read: the same classes, the same the other way round, or not comparable. */
export function turnOf(a: StreamData, b: StreamData): 1 | -1 | null {
  const name = (data: StreamData, index: number) => data.labels[index] ?? String(index);
  const [first, second] = [name(a, a.class), name(a, a.other)];
  if (name(b, b.class) === first && name(b, b.other) === second) return 1;
  if (name(b, b.class) === second && name(b, b.other) === first) return -1;
  return null;
}

/** A contribution as it is shown, with its sign. */
export function signed(value: number | null | undefined, digits = 2): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

/** The largest absolute finite value; 0 if there is none. */
export function largest(numbers: number[]): number {
  return numbers.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
}

/** The rows of a matrix. */
export function rows(tensor: Tensor | undefined): number[][] {
  const [count = 0, width = 0] = tensor?.shape ?? [];
  const flat = values(tensor);
  return Array.from({ length: count }, (_, row) => flat.slice(row * width, (row + 1) * width));
}

/** The numbers of an array; none where it is missing. */
export function values(tensor: Tensor | undefined): number[] {
  return tensor ? Array.from(tensor.values) : [];
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, value) => total + value, 0);
}

function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}
