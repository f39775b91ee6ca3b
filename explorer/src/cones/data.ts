/** What the verbs `cones` and `place` answer, cut to what one site and one layer show. */
import type { Arrays, Reply, Tensor } from "../protocol";
import type { Vector } from "./geometry";

export interface ConePoint {
  number: number | null;
  id: string;
  label: number | null;
  predicted: number | null;
}

export interface ConesData {
  sites: string[];
  layers: Record<string, number[]>;
  classes: string[];
  explained: Record<string, ((number | null)[] | null)[]>;
  angles: Record<string, ((number | null)[][] | null)[]>;
  quantile: number;
  n: (number | null)[];
  points: ConePoint[];
}

export interface PlaceData {
  layers?: number[];
}

export type ConesReply = Reply<ConesData>;
export type PlaceReply = Reply<PlaceData>;

/** One class in one layer: the drawn axis, its true quantile angle, and how much of the axis is in the drawing. */
export interface Cone {
  axis: Vector;
  degrees: number;
}

/** What is drawn of the examples of one layer. */
export interface Cloud {
  positions: Float32Array;
  shown: Uint8Array;
  /** The length that the sphere's radius stands for where lengths are kept, else null. */
  radius: number | null;
}

/** Where in a site's arrays a layer of the model is: the nearest layer that the site has. */
export function rowOf(data: ConesData, site: string, layer: number): number {
  const layers = data.layers[site] ?? [];
  let best = 0;
  layers.forEach((candidate, row) => {
    if (Math.abs(candidate - layer) < Math.abs((layers[best] ?? 0) - layer)) best = row;
  });
  return best;
}

/** The numbers of one row of an array's first axis; empty where the array is missing or too short. */
export function rowValues(tensor: Tensor | undefined, row: number): Float32Array {
  if (!tensor || row < 0) return new Float32Array(0);
  const size = tensor.shape.slice(1).reduce((product, length) => product * length, 1);
  const part = tensor.values.subarray(row * size, (row + 1) * size);
  return part instanceof Float32Array ? part : Float32Array.from(part);
}

/** Triples of a row, turned so that the first axis, to which all classes lean where nothing is centred, points up. */
export function triples(tensor: Tensor | undefined, row: number): Float32Array {
  const values = rowValues(tensor, row);
  const out = new Float32Array(values.length);
  for (let i = 0; i + 2 < values.length; i += 3) {
    const [first, second, third] = [values[i]!, values[i + 1]!, values[i + 2]!];
    if (!Number.isFinite(first)) out.fill(Number.NaN, i, i + 3);
    // Vectors that vary in fewer than three directions have fewer axes.
    else out.set([Number.isFinite(third) ? third : 0, first, Number.isFinite(second) ? second : 0], i);
  }
  return out;
}

/** The cones of a row, by class. */
export function conesOf(arrays: Arrays, site: string, row: number, classes: number): Cone[] {
  const axes = triples(arrays[`axis:${site}`], row);
  const angles = rowValues(arrays[`angle:${site}`], row);
  return Array.from({ length: classes }, (_, c) => ({
    axis: [axes[c * 3] ?? Number.NaN, axes[c * 3 + 1] ?? Number.NaN, axes[c * 3 + 2] ?? Number.NaN],
    degrees: angles[c] ?? Number.NaN,
  }));
}

/** The examples of a row; with true lengths, the sphere's radius is the length that nine in ten do not reach. */
export function cloudOf(arrays: Arrays, site: string, row: number, trueLengths: boolean): Cloud {
  const units = triples(arrays[`point:${site}`], row);
  const lengths = trueLengths ? rowValues(arrays[`length:${site}`], row) : null;
  const radius = lengths ? radiusOf(lengths) : null;
  const count = units.length / 3;
  const positions = new Float32Array(units.length);
  const shown = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    const scale = lengths && radius ? lengths[i]! / radius : 1;
    const [x, y, z] = [units[i * 3]! * scale, units[i * 3 + 1]! * scale, units[i * 3 + 2]! * scale];
    if (!Number.isFinite(x + y + z)) continue;
    shown[i] = 1;
    positions.set([x, y, z], i * 3);
  }
  return { positions, shown, radius };
}

/** A text's vector in every layer that a site has, scaled as the examples are: l × 3, NaN where it is not known. */
export function pathOf(place: PlaceReply, cones: ConesReply, site: string, trueLengths: boolean): Float32Array {
  const units = place.arrays.text;
  const lengths = place.arrays.text_length;
  const layers = cones.data.layers[site] ?? [];
  const out = new Float32Array(layers.length * 3).fill(Number.NaN);
  layers.forEach((layer, row) => {
    const own = placeRow(place, layer, row);
    const unit = triples(units, own);
    if (unit.length < 3) return;
    out.set(scaled(unit, lengths, own, cones, site, row, trueLengths), row * 3);
  });
  return out;
}

/** A text's tokens in one layer: t × 3. */
export function tokensOf(
  place: PlaceReply,
  cones: ConesReply,
  site: string,
  row: number,
  trueLengths: boolean,
): Float32Array {
  const own = placeRow(place, (cones.data.layers[site] ?? [])[row] ?? row, row);
  return scaled(triples(place.arrays.tokens, own), place.arrays.token_lengths, own, cones, site, row, trueLengths);
}

/** The row of a layer in the arrays of `place`, which may have other layers than the result. */
export function placeRow(place: PlaceReply, layer: number, otherwise: number): number {
  const layers = place.data.layers;
  return layers ? layers.indexOf(layer) : otherwise;
}

function scaled(
  units: Float32Array,
  lengths: Tensor | undefined,
  own: number,
  cones: ConesReply,
  site: string,
  row: number,
  trueLengths: boolean,
): Float32Array {
  const radius = trueLengths && lengths ? radiusOf(rowValues(cones.arrays[`length:${site}`], row)) : null;
  if (!radius) return units;
  const ownLengths =
    lengths!.shape.length > 1 ? rowValues(lengths, own) : Float32Array.of(lengths!.values[own] ?? Number.NaN);
  return units.map((value, i) => (value * ownLengths[Math.floor(i / 3)]!) / radius);
}

/** The length that the sphere's radius stands for where lengths are kept: nine in ten examples are shorter. */
export function radiusOf(lengths: Float32Array): number | null {
  const finite = lengths.filter(Number.isFinite).sort();
  return finite.length ? finite[Math.floor(0.9 * (finite.length - 1))]! : null;
}

/** Whether a point was classified rightly; null where label or prediction is not known. */
export function rightOf(point: ConePoint): boolean | null {
  return point.label === null || point.predicted === null ? null : point.label === point.predicted;
}

/** Numbers between two arrays of one length; where one is not finite, the other's. */
export function between(from: Float32Array, to: Float32Array, share: number, into: Float32Array): Float32Array {
  for (let i = 0; i < to.length; i++) {
    const [a, b] = [from[i]!, to[i]!];
    into[i] = Number.isFinite(a) ? a + (b - a) * share : b;
  }
  return into;
}
