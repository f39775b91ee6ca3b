/** What requests and replies are made of; explorer/PROTOCOL.md is the contract. */

export interface Edits {
  erase?: number[];
  replace?: Record<string, string>;
  ablate?: [number, number][];
  how?: "zero" | "mean";
  steer?: { layer: number; to: number; angle: number };
}

export interface Input {
  model: number;
  text: string;
  pair: string | null;
  edits: Edits;
}

export type MapKind = "weights" | "norms" | "residual";

export interface ModelInfo {
  name: string;
  /** What opens it again: a path or an id; empty or missing if it was in memory. */
  source?: string;
  classifies: boolean;
  labels: string[];
  layers: number;
  heads: number[];
  reads: string;
  edits: { context: boolean; output: boolean; forward: boolean; hidden: boolean };
  maps: MapKind[];
  attributes: boolean;
  pairs: boolean;
  notes: string[];
}

export interface MethodInfo {
  name: string;
  slow: boolean;
  about: string;
}

export interface ResultInfo {
  name: string;
  source?: string;
  /** The index of its model among the open ones. */
  model: number | null;
  corpus: string;
  tables: string[];
}

export interface Hello {
  version: string;
  models: ModelInfo[];
  methods: MethodInfo[];
  results: ResultInfo[];
  corpus: { name: string; size: number; labels: string[] } | null;
  limits: { characters: number; tokens: number };
  texts: (string | { text: string; pair?: string | null })[];
  paths: string[];
  /** Lines on what was named and is not there. */
  notes?: string[];
  /** What is read or measured in the background; until it is null, results and texts get more. */
  filling?: { doing: string; done: number; of: number } | null;
}

export interface TokenInfo {
  text: string;
  kind: string;
  word: number | null;
}

export interface RunData {
  tokens: TokenInfo[];
  words: string[];
  labels: string[];
  predicted: number | null;
  probabilities: number[];
  logits: number[];
  place: number | null;
  truncated: boolean | number;
  gates: (string | null)[][];
  ms: number;
}

export interface AnswerData {
  predicted: number | null;
  probabilities: number[];
  logits: number[];
}

export interface WordsData {
  words: string[];
  about: string;
}

export interface DeletionData {
  class: number;
  order: number[];
}

export interface GridData {
  gates?: (string | null)[][];
  n?: number | (number | null)[][];
  about?: string;
  unit?: string;
}

export interface MeanMapData {
  about: string;
  n: number;
}

/** An array of numbers with its shape; the last axis varies fastest. */
export interface Tensor {
  shape: number[];
  values: Float32Array | Int32Array | Uint8Array;
}

export type Arrays = Record<string, Tensor>;

export interface Reply<D = unknown> {
  data: D;
  arrays: Arrays;
}

export type Frame =
  | { id: number; type: "reply"; reply: Reply }
  | { id: number; type: "error"; error: string }
  | { id: number; type: "progress"; progress: number; doing: string }
  | { id: number; type: "cancelled" };

/** An answer that is no reply: the message is one line for the person who reads. */
export class ReplyError extends Error {}

/** A request that was taken back or replaced by a newer one of its lane. */
export class Cancelled extends Error {
  constructor() {
    super("cancelled");
  }
}

const WIDTHS: Record<string, number> = { f4: 4, f2: 2, i4: 4, u1: 1 };

/** The frame that these bytes are; an error says what is wrong with them. */
export function decodeFrame(buffer: ArrayBuffer | DataView | Uint8Array): Frame {
  const bytes = aligned(buffer);
  if (bytes.byteLength < 4) throw new ReplyError(`A frame of ${bytes.byteLength} bytes, expected at least 4`);
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  if (4 + length > bytes.byteLength) {
    throw new ReplyError(`A frame's header of ${length} bytes in ${bytes.byteLength} bytes`);
  }
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(4, 4 + length)));
  } catch {
    throw new ReplyError("A frame's header is not JSON");
  }
  return frameOf(header, bytes.subarray(4 + length));
}

/** The same bytes, copied if they do not begin at a multiple of 8. */
function aligned(buffer: ArrayBuffer | DataView | Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes =
    buffer instanceof ArrayBuffer
      ? new Uint8Array(buffer)
      : new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength);
  return bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
}

function frameOf(header: unknown, body: Uint8Array<ArrayBuffer>): Frame {
  if (!isRecord(header)) throw new ReplyError("A frame's header is no object");
  // A request that the library could not read has no number.
  const id = typeof header.id === "number" ? header.id : -1;
  if (header.cancelled === true) return { id, type: "cancelled" };
  if (typeof header.progress === "number") {
    return { id, type: "progress", progress: header.progress, doing: String(header.doing ?? "") };
  }
  if (header.ok !== true)
    return { id, type: "error", error: String(header.error ?? "The answer says neither ok nor error") };
  const listed = Array.isArray(header.arrays) ? header.arrays : [];
  const arrays: Arrays = Object.create(null);
  for (const entry of listed) {
    const [name, tensor] = tensorOf(entry, body);
    arrays[name] = tensor;
  }
  return { id, type: "reply", reply: { data: header.data ?? {}, arrays } };
}

function tensorOf(entry: unknown, body: Uint8Array<ArrayBuffer>): [string, Tensor] {
  if (!isRecord(entry)) throw new ReplyError("An array of a frame is not described");
  const { name, dtype, shape, offset, bytes } = entry;
  const width = typeof dtype === "string" ? WIDTHS[dtype] : undefined;
  if (typeof name !== "string" || width === undefined) throw new ReplyError(`An array of dtype ${String(dtype)}`);
  if (!Array.isArray(shape) || !shape.every(isCount)) throw new ReplyError(`The array ${name} has no shape`);
  const count = (shape as number[]).reduce((product, size) => product * size, 1);
  if (!isCount(offset) || !isCount(bytes) || bytes !== count * width || offset % width !== 0) {
    throw new ReplyError(
      `The array ${name} of shape ${shape.join(" × ")} has ${String(bytes)} bytes at ${String(offset)}`,
    );
  }
  if (offset + bytes > body.byteLength) throw new ReplyError(`The array ${name} ends beyond its frame`);
  return [name, { shape: shape as number[], values: valuesOf(dtype as string, body, offset, count) }];
}

function valuesOf(dtype: string, body: Uint8Array<ArrayBuffer>, offset: number, count: number): Tensor["values"] {
  const start = body.byteOffset + offset;
  if (dtype === "u1") return new Uint8Array(body.buffer, start, count);
  const placed = start % 4 === 0 ? body.buffer : body.buffer.slice(start, start + count * 4);
  const at = start % 4 === 0 ? start : 0;
  if (dtype === "f4") return new Float32Array(placed, at, count);
  if (dtype === "i4") return new Int32Array(placed, at, count);
  return fromHalf(new Uint16Array(body.buffer, start, count));
}

/** The numbers of IEEE half floats. */
export function fromHalf(halves: Uint16Array): Float32Array {
  const out = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i]!;
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    if (exponent === 0) out[i] = sign * fraction * 2 ** -24;
    else if (exponent === 31) out[i] = fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
    else out[i] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return out;
}

/** The bytes of a reply, as the library writes them. */
export function encodeFrame(id: number, reply: Reply): Uint8Array<ArrayBuffer> {
  let offset = 0;
  const arrays = Object.entries(reply.arrays).map(([name, { shape, values }]) => {
    const dtype = values instanceof Float32Array ? "f4" : values instanceof Int32Array ? "i4" : "u1";
    const entry = { name, dtype, shape, offset, bytes: values.byteLength };
    offset += Math.ceil(values.byteLength / 8) * 8;
    return entry;
  });
  const json = new TextEncoder().encode(JSON.stringify({ id, ok: true, data: reply.data, arrays }));
  const length = Math.ceil((4 + json.length) / 8) * 8 - 4;
  const out = new Uint8Array(4 + length + offset).fill(32, 4, 4 + length);
  new DataView(out.buffer).setUint32(0, length, true);
  out.set(json, 4);
  Object.values(reply.arrays).forEach(({ values }, i) => {
    out.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 4 + length + arrays[i]!.offset);
  });
  return out;
}

/** The key of a request: the JSON of verb and parameters with sorted keys, without what is null, false or empty. */
export function keyOf(verb: string, params: object): string {
  return `[${JSON.stringify(verb)},${sorted(pruned(params) ?? {})}]`;
}

/** The value without null, false, "", [] and {} in objects, from the inside out; undefined where nothing is left. */
function pruned(value: unknown): unknown {
  if (Array.isArray(value)) return value.length ? value.map((item) => pruned(item) ?? item ?? null) : undefined;
  if (isRecord(value)) {
    const entries = Object.entries(value).map(([key, item]) => [key, pruned(item)] as const);
    const kept = entries.filter(([, item]) => item !== undefined);
    return kept.length ? Object.fromEntries(kept) : undefined;
  }
  return value === null || value === false || value === "" ? undefined : value;
}

function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (!isRecord(value)) return JSON.stringify(value) ?? "null";
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${sorted(value[key])}`).join(",")}}`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}
