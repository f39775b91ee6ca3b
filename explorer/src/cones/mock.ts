/** Made-up cones: classes that part from layer to layer, with examples around their axes. */
import { type Answering, random, tensor } from "../mock";
import type { Arrays, Reply, Tensor } from "../protocol";

const LAYERS = [0, 1, 2, 3, 4, 5, 6];
const SITES = ["hidden", "key", "value"];
const WIDTH = 12;

export interface Made {
  classes: string[];
  points: number;
  /** Layers from which on examples are sampled. */
  sampled: number;
}

export const MADE: Made = { classes: ["negative", "neutral", "positive"], points: 2000, sampled: 0 };

/** Answers of `cones` and `place` with so many classes and points. */
export function conesAnswers(made: Made = MADE): Record<string, Answering> {
  return {
    cones: (params: { result: number; centred?: boolean }) => cones(made, params.result, params.centred === true),
    place: (params: { text: string; result: number; site: string }) => place(made, params),
  };
}

/** The direction of a class in d dimensions: a common one, and its own that grows with the layer. */
function direction(made: Made, c: number, row: number, result: number, centred: boolean): number[] {
  const parting = ((centred ? 34 : 6) + (result ? 3 : 9) * row) * (Math.PI / 180);
  const turn = (2 * Math.PI * c) / made.classes.length;
  const out = new Array<number>(WIDTH).fill(0);
  out[0] = Math.cos(parting);
  out[1] = Math.sin(parting) * Math.cos(turn);
  out[2] = Math.sin(parting) * Math.sin(turn);
  return out;
}

function normal(next: () => number): number {
  return Math.sqrt(-2 * Math.log(next() + 1e-9)) * Math.cos(2 * Math.PI * next());
}

/** A direction with noise, as a unit vector. */
function near(axis: number[], width: number, next: () => number): number[] {
  const noisy = axis.map((value) => value + width * normal(next));
  const size = Math.hypot(...noisy);
  return noisy.map((value) => value / size);
}

function degreesBetween(a: number[], b: number[]): number {
  const cosine = a.reduce((sum, value, i) => sum + value * b[i]!, 0) / (Math.hypot(...a) * Math.hypot(...b));
  return (Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI;
}

function labelsOf(made: Made): { label: number; predicted: number }[] {
  const next = random("labels");
  return Array.from({ length: made.points }, () => {
    const label = Math.floor(next() * made.classes.length);
    return { label, predicted: next() < 0.92 ? label : Math.floor(next() * made.classes.length) };
  });
}

function cones(made: Made, result: number, centred: boolean): Reply {
  const labels = labelsOf(made);
  const arrays: Arrays = {};
  const angles: Record<string, number[][][]> = {};
  for (const site of SITES) {
    const axes = LAYERS.map((_, row) => made.classes.map((__, c) => direction(made, c, row, result, centred)));
    arrays[`axis:${site}`] = three(axes.flat(), [LAYERS.length, made.classes.length, 3]);
    arrays[`angle:${site}`] = tensor(
      [LAYERS.length, made.classes.length],
      (i) => 36 - 2 * Math.floor(i / made.classes.length),
    );
    angles[site] = axes.map((row) => row.map((a) => row.map((b) => degreesBetween(a, b))));
    const points = LAYERS.map((_, row) => {
      const next = random(`${site}${result}`);
      return labels.map(({ label, predicted }) =>
        near(axes[row]![Math.round((label + predicted) / 2)]!, 0.3 - 0.02 * row, next),
      );
    });
    arrays[`point:${site}`] = three(points.flat(), [LAYERS.length, made.points, 3]);
    for (let row = 0; row < made.sampled; row++) {
      arrays[`point:${site}`]!.values.fill(Number.NaN, row * made.points * 3, (row + 1) * made.points * 3);
    }
    const next = random("lengths");
    arrays[`length:${site}`] = tensor([LAYERS.length, made.points], () => 9 + 3 * normal(next));
  }
  return {
    data: {
      sites: SITES,
      layers: Object.fromEntries(SITES.map((site) => [site, LAYERS])),
      classes: made.classes,
      explained: Object.fromEntries(SITES.map((site) => [site, LAYERS.map((l) => [0.31 + 0.02 * l, 0.12, 0.05])])),
      angles,
      quantile: 0.9,
      n: made.classes.map((_, c) => labels.filter(({ label }) => label === c).length),
      points: labels.map((both, i) => ({ number: i, id: `test/${i}`, ...both })),
    },
    arrays,
  };
}

function place(made: Made, { text, result }: { text: string; result: number }): Reply {
  const words = text.split(/\s+/).filter(Boolean);
  const next = random(text);
  const goal = Math.floor(next() * made.classes.length);
  const vectors = LAYERS.map((_, row) => near(direction(made, goal, row, result, false), 0.12, next));
  const tokens = vectors.map((vector) => [vector, ...words, vector].map(() => near(vector, 0.35, next)));
  const each = (vector: number[], row: number) =>
    made.classes.map((_, c) => degreesBetween(vector, direction(made, c, row, result, false)));
  const flat = (rows: number[][]) => rows.flat();
  const count = words.length + 2;
  return {
    data: { layers: LAYERS },
    arrays: {
      text: three(vectors, [LAYERS.length, 3]),
      tokens: three(tokens.flat(), [LAYERS.length, count, 3]),
      text_angles: of(flat(vectors.map(each)), [LAYERS.length, made.classes.length]),
      token_angles: of(flat(tokens.flatMap((row, l) => row.map((vector) => each(vector, l)))), [
        LAYERS.length,
        count,
        made.classes.length,
      ]),
      text_length: tensor([LAYERS.length], () => 9 + normal(next)),
      token_lengths: tensor([LAYERS.length, count], () => 9 + 2 * normal(next)),
    },
  };
}

/** The first three coordinates of each vector. */
function three(vectors: number[][], shape: number[]): Tensor {
  return of(
    vectors.flatMap((vector) => vector.slice(0, 3)),
    shape,
  );
}

function of(values: number[], shape: number[]): Tensor {
  return { shape, values: Float32Array.from(values) };
}
