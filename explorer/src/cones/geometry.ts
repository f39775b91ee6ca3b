/** Shapes of the cones' view as plain numbers, so that WebGL and the 2D canvas draw the same. */

export type Vector = readonly [number, number, number];

export interface Mesh {
  positions: Float32Array;
  indices: Uint16Array;
}

const RADIANS = Math.PI / 180;

/** The length of a vector. */
export function lengthOf([x, y, z]: Vector): number {
  return Math.hypot(x, y, z);
}

/** Two unit vectors that are orthogonal to a vector and to each other; null for a vector without a direction. */
export function across(axis: Vector): [Vector, Vector, Vector] | null {
  const length = lengthOf(axis);
  if (!(length > 1e-9)) return null;
  const [x, y, z] = axis.map((value) => value / length) as unknown as Vector;
  const helper: Vector = Math.abs(x) < 0.6 ? [1, 0, 0] : [0, 1, 0];
  const first = cross([x, y, z], helper);
  const size = lengthOf(first);
  const unit = first.map((value) => value / size) as unknown as Vector;
  return [[x, y, z], unit, cross([x, y, z], unit)];
}

function cross(a: Vector, b: Vector): Vector {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

/** Points of the circle in which a cone meets the unit sphere, the first one repeated at the end: (segments + 1) × 3. */
export function rim(axis: Vector, degrees: number, segments = 64): Float32Array | null {
  const frame = across(axis);
  if (!frame || !Number.isFinite(degrees)) return null;
  const [a, u, v] = frame;
  const [along, aside] = [Math.cos(degrees * RADIANS), Math.sin(degrees * RADIANS)];
  const out = new Float32Array((segments + 1) * 3);
  for (let i = 0; i <= segments; i++) {
    const turn = (2 * Math.PI * (i % segments)) / segments;
    const [c, s] = [Math.cos(turn), Math.sin(turn)];
    for (let k = 0; k < 3; k++) out[i * 3 + k] = along * a[k]! + aside * (c * u[k]! + s * v[k]!);
  }
  return out;
}

/** A cone's side as triangles: its tip at the centre, its rim on the unit sphere; null without a direction or an angle. */
export function cone(axis: Vector, degrees: number, segments = 64): Mesh | null {
  const edge = rim(axis, degrees, segments);
  if (!edge) return null;
  const positions = new Float32Array((segments + 1) * 3);
  positions.set(edge.subarray(0, segments * 3), 3);
  const indices = new Uint16Array(segments * 3);
  for (let i = 0; i < segments; i++) indices.set([0, 1 + i, 1 + ((i + 1) % segments)], i * 3);
  return { positions, indices };
}

/** Pairs of points: the unit sphere's meridians and parallels as line segments. */
export function wireframe(meridians = 12, parallels = 5, segments = 48): Float32Array {
  const out: number[] = [];
  const at = (polar: number, turn: number) => [
    Math.sin(polar) * Math.cos(turn),
    Math.cos(polar),
    Math.sin(polar) * Math.sin(turn),
  ];
  for (let line = 0; line < meridians; line++) {
    const turn = (2 * Math.PI * line) / meridians;
    const half = segments / 2;
    for (let i = 0; i < half; i++) out.push(...at((Math.PI * i) / half, turn), ...at((Math.PI * (i + 1)) / half, turn));
  }
  for (let line = 1; line <= parallels; line++) {
    const polar = (Math.PI * line) / (parallels + 1);
    for (let i = 0; i < segments; i++) {
      out.push(...at(polar, (2 * Math.PI * i) / segments), ...at(polar, (2 * Math.PI * (i + 1)) / segments));
    }
  }
  return new Float32Array(out);
}

/** The angle in degrees between two drawn vectors; null where one has no direction. */
export function drawnAngle(a: Vector, b: Vector): number | null {
  const size = lengthOf(a) * lengthOf(b);
  if (!(size > 1e-12)) return null;
  const cosine = (a[0] * b[0] + a[1] * b[1] + a[2] * b[2]) / size;
  return Math.acos(Math.max(-1, Math.min(1, cosine))) / RADIANS;
}
