/** True angles in d dimensions: tables, their differences, and one sentence about them. */
import type { ConesReply, PlaceReply } from "./data";
import { placeRow, rowValues } from "./data";

export type Angle = number | null;

/** An angle as it is shown; a dash where there is none. */
export function degrees(value: Angle | undefined, signed = false): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(1);
  if (!signed) return `${value < 0 ? "−" : ""}${text}°`;
  return Number(text) === 0 ? `${text}°` : `${value < 0 ? "−" : "+"}${text}°`;
}

/** Class × class angles of a row. */
export function classAngles(cones: ConesReply, site: string, row: number): Angle[][] {
  const found = cones.data.angles[site]?.[row];
  const none = cones.data.classes.map(() => null);
  return cones.data.classes.map((_, c) => found?.[c] ?? none);
}

/** Angles from a text to each class in one layer of the model. */
export function textAngles(place: PlaceReply | null, layer: number, row: number, classes: number): Angle[] {
  const own = place ? placeRow(place, layer, row) : -1;
  const values = place && own >= 0 ? rowValues(place.arrays.text_angles, own) : [];
  return Array.from({ length: classes }, (_, c) => finite(values[c]));
}

/** Angles from each token to each class in one layer: t rows of c. */
export function tokenAngles(place: PlaceReply | null, layer: number, row: number, classes: number): Angle[][] {
  const own = place ? placeRow(place, layer, row) : -1;
  const values = place && own >= 0 ? rowValues(place.arrays.token_angles, own) : new Float32Array(0);
  const count = classes ? Math.floor(values.length / classes) : 0;
  return Array.from({ length: count }, (_, t) =>
    Array.from({ length: classes }, (_, c) => finite(values[t * classes + c])),
  );
}

function finite(value: number | undefined): Angle {
  return value !== undefined && Number.isFinite(value) ? value : null;
}

/** b − a; null where one is not known. */
export function difference(a: Angle | undefined, b: Angle | undefined): Angle {
  return a === null || b === null || a === undefined || b === undefined ? null : b - a;
}

/** The mean of the angles between different classes; null if none is known. */
export function meanBetween(angles: Angle[][]): Angle {
  const known = angles.flatMap((row, c) => row.filter((value, d): value is number => d > c && value !== null));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Whether two results have the same classes in the same order, so that their angles can be subtracted. */
export function sameClasses(a: ConesReply, b: ConesReply): boolean {
  const [first, second] = [a.data.classes, b.data.classes];
  return first.length === second.length && first.every((name, c) => name === second[c]);
}

/** The sum of what the three axes explain; null where it is not known. */
export function explainedSum(shares: (number | null)[] | null | undefined): number | null {
  if (!shares?.length || shares.some((share) => share === null)) return null;
  return (shares as number[]).reduce((sum, share) => sum + share, 0);
}
