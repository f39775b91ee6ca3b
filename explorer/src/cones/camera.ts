/** From where the sphere is seen: pure arithmetic, shared by WebGL, the 2D canvas and hit testing. */

export interface View {
  /** Turn about the vertical axis, in radians. */
  yaw: number;
  /** Tilt, in radians, between the poles. */
  pitch: number;
  /** 1 shows the whole sphere; 2 shows it twice as large. */
  zoom: number;
}

export interface Camera {
  /** 4 × 4, by columns, as WebGL reads them: from the sphere's space to the eye's. */
  view: Float32Array;
  /** 4 × 4, by columns: from the eye's space to clip space. */
  projection: Float32Array;
  /** projection · view. */
  both: Float32Array;
  width: number;
  height: number;
}

/** A place on the canvas in CSS pixels; depth grows away from the eye, 0 at the sphere's centre. */
export interface Spot {
  x: number;
  y: number;
  depth: number;
}

export const START: View = { yaw: 0.6, pitch: 0.35, zoom: 1 };
type Sixteen = [...Eight, ...Eight];
type Eight = [number, number, number, number, number, number, number, number];

const DISTANCE = 5;
const MARGIN = 1.18;
const STEEPEST = Math.PI / 2 - 0.01;
const NEAREST = 0.5;
const LARGEST_ZOOM = 8;

/** The view after a turn by so many radians, never past the poles. */
export function turned(view: View, yaw: number, pitch: number): View {
  const tilt = Math.max(-STEEPEST, Math.min(STEEPEST, view.pitch + pitch));
  return { ...view, yaw: view.yaw + yaw, pitch: tilt };
}

/** The view so many times nearer, within bounds. */
export function zoomed(view: View, factor: number): View {
  return { ...view, zoom: Math.max(NEAREST, Math.min(LARGEST_ZOOM, view.zoom * factor)) };
}

/** The view after a key, or null where the key says nothing. */
export function afterKey(view: View, key: string): View | null {
  const step = Math.PI / 24;
  if (key === "ArrowLeft") return turned(view, -step, 0);
  if (key === "ArrowRight") return turned(view, step, 0);
  if (key === "ArrowUp") return turned(view, 0, -step);
  if (key === "ArrowDown") return turned(view, 0, step);
  if (key === "+" || key === "=") return zoomed(view, 1.15);
  if (key === "-" || key === "_") return zoomed(view, 1 / 1.15);
  if (key === "0" || key === "Home") return START;
  return null;
}

/** a · b, both 4 × 4 by columns. */
export function product(a: Float32Array, b: Float32Array): Float32Array {
  const out = new Float32Array(16);
  for (let column = 0; column < 4; column++) {
    for (let row = 0; row < 4; row++) {
      let sum = 0;
      for (let k = 0; k < 4; k++) sum += a[k * 4 + row]! * b[column * 4 + k]!;
      out[column * 4 + row] = sum;
    }
  }
  return out;
}

/** The camera of a view on a canvas of that many CSS pixels; the unit sphere fits at zoom 1. */
export function cameraOf(view: View, width: number, height: number): Camera {
  const [cy, sy, cp, sp] = [Math.cos(view.yaw), Math.sin(view.yaw), Math.cos(view.pitch), Math.sin(view.pitch)];
  const eye = new Float32Array([cy, sp * sy, -cp * sy, 0, 0, cp, sp, 0, sy, -sp * cy, cp * cy, 0, 0, 0, -DISTANCE, 1]);
  const shorter = Math.max(1, Math.min(width, height));
  const scale = (view.zoom * Math.sqrt(DISTANCE * DISTANCE - 1)) / MARGIN;
  const [near, far] = [DISTANCE - 3, DISTANCE + 3];
  const lens = new Float32Array(16);
  lens[0] = (scale * shorter) / Math.max(1, width);
  lens[5] = (scale * shorter) / Math.max(1, height);
  lens[10] = -(far + near) / (far - near);
  lens[11] = -1;
  lens[14] = (-2 * far * near) / (far - near);
  return { view: eye, projection: lens, both: product(lens, eye), width, height };
}

/** Where a point of the sphere's space is seen. */
export function project(camera: Camera, x: number, y: number, z: number): Spot {
  const [left, top, depth] = projectAll(camera, Float32Array.of(x, y, z));
  return { x: left!, y: top!, depth: depth! };
}

/** Where many points are seen: x, y and depth of each, in one array that may be given again. */
export function projectAll(camera: Camera, points: Float32Array, into?: Float32Array): Float32Array {
  const out = into && into.length === points.length ? into : new Float32Array(points.length);
  const m = [...camera.both] as Sixteen;
  const [halfWidth, halfHeight] = [camera.width / 2, camera.height / 2];
  for (let i = 0; i < points.length; i += 3) {
    const x = points[i]!;
    const y = points[i + 1]!;
    const z = points[i + 2]!;
    const w = Math.max(NEAREST, m[3] * x + m[7] * y + m[11] * z + m[15]);
    out[i] = (1 + (m[0] * x + m[4] * y + m[8] * z + m[12]) / w) * halfWidth;
    out[i + 1] = (1 - (m[1] * x + m[5] * y + m[9] * z + m[13]) / w) * halfHeight;
    out[i + 2] = w - DISTANCE;
  }
  return out;
}
