/** A host with made-up replies, for tests and for work on the page without the library. */
import type { Host, RequestOptions } from "./hosts/host";
import {
  type Arrays,
  Cancelled,
  type Hello,
  type Input,
  type ModelInfo,
  type Reply,
  ReplyError,
  type Tensor,
  type TokenInfo,
} from "./protocol";

export type Answering = (params: never, host: MockHost) => Reply;

const EDITS = { context: true, output: true, forward: true, hidden: true };

function model(name: string, layers: number, heads: number, more: Partial<ModelInfo> = {}): ModelInfo {
  return {
    name,
    classifies: true,
    labels: ["negative", "positive"],
    layers,
    heads: Array<number>(layers).fill(heads),
    reads: "first",
    edits: EDITS,
    maps: ["weights", "norms", "residual"],
    attributes: true,
    pairs: false,
    notes: [],
    ...more,
  };
}

export const HELLO: Hello = {
  version: "0.0",
  models: [
    model("bistro-small", 3, 4),
    model("reviews-twelve", 12, 12),
    model("encoder", 6, 12, { classifies: false, labels: [], reads: "mean", attributes: false }),
  ],
  methods: [
    { name: "attention", slow: false, about: "Mean weight that the classified token gives to each word." },
    { name: "norms", slow: false, about: "Length of what each word passes on." },
    { name: "rollout", slow: false, about: "Weights multiplied through the layers." },
    { name: "gradient", slow: false, about: "How much the answer changes with each word's embedding." },
    { name: "integrated_gradients", slow: true, about: "Gradients summed from an empty text to this one." },
    { name: "flow", slow: true, about: "The most that can flow through all layers." },
  ],
  results: [{ name: "out", source: "out", model: 0, corpus: "bistro:test", tables: ["sim", "gates", "gates.names"] }],
  corpus: { name: "bistro:test", size: 1000, labels: ["negative", "positive"] },
  limits: { characters: 20_000, tokens: 512 },
  texts: ["the soup was not good but the waiter smiled", "a bland soup and a cold room"],
  paths: ["conoscope-demo/model", "out"],
};

/** Numbers between 0 and 1 that are the same each time for the same seed. */
export function random(seed: string): () => number {
  let state = 2166136261;
  for (let i = 0; i < seed.length; i++) state = Math.imul(state ^ seed.charCodeAt(i), 16777619);
  return () => {
    state = Math.imul(state ^ (state >>> 15), 2246822507) + 0x9e3779b9;
    const mixed = Math.imul(state ^ (state >>> 13), 3266489909);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

export function tensor(shape: number[], fill: (index: number) => number): Tensor {
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  for (let i = 0; i < values.length; i++) values[i] = fill(i);
  return { shape, values };
}

/** Words of the input after its edits; their numbers stay. */
function wordsOf(input: Input): string[] {
  const words = [input.text, input.pair ?? ""].join(" ").split(/\s+/).filter(Boolean);
  return words.map((word, i) => {
    if (input.edits?.erase?.includes(i)) return "[MASK]";
    return input.edits?.replace?.[String(i)] ?? word;
  });
}

export function tokensOf(words: string[], most: number): TokenInfo[] {
  const tokens: TokenInfo[] = [{ text: "[CLS]", kind: "special", word: null }];
  words.forEach((text, word) => {
    const pieces = text.match(/.{1,8}/gsu) ?? [text];
    pieces.forEach((piece, i) => {
      tokens.push({ text: i ? `##${piece}` : piece, kind: "word", word });
    });
  });
  return [...tokens.slice(0, most - 1), { text: "[SEP]", kind: "special", word: null }];
}

const GOOD = /good|smil|warm|fresh|great/i;
const BAD = /bad|bland|cold|not|awful/i;

function logitsOf(input: Input, info: ModelInfo): number[] {
  if (!info.classifies) return [];
  const words = wordsOf(input);
  const score = words.reduce((sum, word) => sum + (GOOD.test(word) ? 1 : 0) - (BAD.test(word) ? 1.2 : 0), 0.2);
  const without = (input.edits?.ablate?.length ?? 0) * 0.15;
  const next = random(info.name)() * 0.3;
  return info.labels.map((_, i) => (i % 2 ? 1 : -1) * (score + next - without));
}

export function answerOf(input: Input, info: ModelInfo) {
  const logits = logitsOf(input, info);
  const most = Math.max(...logits);
  const raised = logits.map((x) => Math.exp(x - most));
  const sum = raised.reduce((a, b) => a + b, 0);
  const probabilities = raised.map((x) => x / sum);
  return { predicted: logits.length ? logits.indexOf(most) : null, probabilities, logits };
}

/** One made-up map: each head looks somewhere of its own. */
function fillMap(out: Float32Array, start: number, size: number, layer: number, head: number, seed: string): void {
  const next = random(`${seed}${layer}-${head}`);
  const kind = (layer * 5 + head * 3) % 5;
  for (let i = 0; i < size; i++) {
    let sum = 0;
    for (let j = 0; j < size; j++) {
      const near = [j === i - 1, j === i + 1, j === 0, j === size - 1, j === i][kind] ? 3 : 0;
      const value = Math.exp(near + next() * 1.4);
      out[start + i * size + j] = value;
      sum += value;
    }
    for (let j = 0; j < size; j++) out[start + i * size + j]! /= sum;
  }
}

const MAP_BYTES = 4 * 2 ** 20;

function mapsOf(input: Input, info: ModelInfo, size: number): Arrays {
  const heads = Math.max(...info.heads);
  const cells = info.layers * heads * size * size;
  const weights = new Float32Array(cells);
  for (let layer = 0; layer < info.layers; layer++) {
    for (let head = 0; head < heads; head++) {
      fillMap(weights, (layer * heads + head) * size * size, size, layer, head, input.text);
    }
  }
  const arrays: Arrays = { thumbs: thumbsOf(weights, info.layers * heads, size, [info.layers, heads]) };
  if (cells * 4 <= MAP_BYTES) {
    const next = random(`norms${input.text}`);
    arrays.weights = { shape: [info.layers, heads, size, size], values: weights };
    arrays.norms = { shape: [info.layers, heads, size, size], values: weights.map((x) => x * (0.2 + next() * 2)) };
    arrays.residual = tensor([info.layers, size, size], (i) => {
      const [row, column] = [Math.floor(i / size) % size, i % size];
      return row === column ? 4 : 0.1 + next();
    });
  }
  return arrays;
}

function thumbsOf(maps: Float32Array, count: number, size: number, shape: number[]): Tensor {
  const side = Math.min(32, size);
  const values = new Uint8Array(count * side * side);
  for (let m = 0; m < count; m++) {
    for (let i = 0; i < size; i++) {
      for (let j = 0; j < size; j++) {
        const at = (m * side + Math.floor((i * side) / size)) * side + Math.floor((j * side) / size);
        values[at] = Math.max(values[at]!, Math.round(maps[(m * size + i) * size + j]! * 255));
      }
    }
  }
  return { shape: [...shape, side, side], values };
}

function run(input: Input, host: MockHost): Reply {
  const info = host.model(input.model);
  const words = wordsOf(input);
  const tokens = tokensOf(words, HELLO.limits.tokens);
  const shape = [info.layers, Math.max(...info.heads)];
  const next = random(`values${info.name}`);
  const kinds = ["open", "directional", "forward contextual", "closed", null];
  return {
    data: {
      tokens,
      words,
      labels: info.labels,
      ...answerOf(input, info),
      place: info.reads === "first" ? 0 : null,
      truncated: tokens.length >= HELLO.limits.tokens,
      gates: info.heads.map((heads, l) => Array.from({ length: heads }, (_, h) => kinds[(l * 3 + h) % 5] ?? null)),
      ms: 12,
    },
    arrays: {
      ...mapsOf(input, info, tokens.length),
      entropy: tensor(shape, next),
      sim_key: tensor(shape, () => next() * 2 - 1),
      sim_value: tensor(shape, next),
      sim_context: tensor(shape, next),
    },
  };
}

function head(params: Input & { layer: number; head: number; map: string }): Reply {
  const size = tokensOf(wordsOf(params), HELLO.limits.tokens).length;
  const values = new Float32Array(size * size);
  fillMap(values, 0, size, params.layer - 1, params.head - 1, params.text);
  return { data: {}, arrays: { map: { shape: [size, size], values } } };
}

function words(params: Input & { method: string }): Reply {
  const list = wordsOf(params);
  const signed = params.method.includes("gradient");
  const next = random(params.method + params.text);
  const scores = tensor([list.length], (i) => {
    const word = list[i]!;
    const base = GOOD.test(word) ? 1 : BAD.test(word) ? (signed ? -1 : 1) : 0;
    return base + next() * 0.3 - (signed ? 0.15 : 0);
  });
  return { data: { words: list, about: `Made-up scores of ${params.method}.` }, arrays: { scores } };
}

function deletion(params: Input & { method: string }, host: MockHost): Reply {
  const { scores } = words(params).arrays;
  const order = [...scores!.values.keys()].sort((a, b) => scores!.values[b]! - scores!.values[a]!);
  const info = host.model(params.model);
  const { predicted, probabilities } = answerOf(params, info);
  const start = probabilities[predicted ?? 0] ?? 0;
  const curve = tensor([order.length + 1], (k) => 0.5 + (start - 0.5) * Math.exp(-k));
  const chance = tensor([order.length + 1], (k) => 0.5 + (start - 0.5) * (1 - k / order.length));
  return { data: { class: predicted, order }, arrays: { curve, chance } };
}

function grid(params: { what: string }): Reply {
  const info = HELLO.models[0]!;
  const shape = [info.layers, info.heads[0]!];
  const next = random(params.what);
  const value = tensor(shape, params.what === "ablation" ? () => (next() - 0.6) * 0.1 : next);
  return {
    data: { gates: [], n: 100, about: `Made-up ${params.what} over the corpus.`, unit: "" },
    arrays: {
      value,
      low: tensor(shape, (i) => value.values[i]! - 0.02),
      high: tensor(shape, (i) => value.values[i]! + 0.02),
    },
  };
}

function meanMap(params: { layer: number; head: number }): Reply {
  const values = new Float32Array(256);
  fillMap(values, 0, 16, params.layer - 1, params.head - 1, "mean");
  return { data: { about: "Mean map of 16 made-up texts.", n: 16 }, arrays: { map: { shape: [16, 16], values } } };
}

/** Made-up answers by verb; a view adds its own in a file beside this one. */
export const ANSWERS: Record<string, Answering> = {
  hello: (_params, host: MockHost) => ({ data: host.greeting, arrays: {} }),
  run,
  head,
  answer: (input: Input, host: MockHost) => ({ data: answerOf(input, host.model(input.model)), arrays: {} }),
  words,
  deletion,
  grid,
  mean_map: meanMap,
};

export class MockHost implements Host {
  readonly kind = "mock";
  readonly live = true;
  /** Every request that was made, oldest first. */
  readonly asked: { verb: string; params: object }[] = [];
  private readonly lanes = new Map<string, () => void>();

  constructor(
    readonly greeting: Hello = HELLO,
    private readonly delay = 30,
    private readonly answers: Record<string, Answering> = ANSWERS,
  ) {}

  model(index: number): ModelInfo {
    const found = this.greeting.models[index];
    if (!found) throw new ReplyError(`There is no model ${index}`);
    return found;
  }

  async hello(): Promise<Hello> {
    return (await this.request<Hello>("hello", {})).data;
  }

  request<D>(verb: string, params: object, options: RequestOptions = {}): Promise<Reply<D>> {
    this.asked.push({ verb, params });
    const answering = this.answers[verb];
    return new Promise((resolve, reject) => {
      const cancel = () => reject(new Cancelled());
      if (options.lane !== undefined) {
        this.lanes.get(options.lane)?.();
        this.lanes.set(options.lane, cancel);
      }
      options.signal?.addEventListener("abort", cancel, { once: true });
      setTimeout(() => {
        try {
          if (!answering) throw new ReplyError(`This model has no ${verb}`);
          resolve(answering(params as never, this) as Reply<D>);
        } catch (error) {
          reject(error);
        }
      }, this.delay);
    });
  }
}
