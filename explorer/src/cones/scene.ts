/** What both drawings of the cones are given, and what both can do. */

import type { Theme } from "../draw/colour";
import type { Camera } from "./camera";
import type { Cone } from "./data";

/** A text in the drawing: its path over the layers, where it is now, and its tokens. */
export interface Marked {
  name: string;
  colour: string;
  path: Float32Array;
  at: Float32Array;
  tokens: Float32Array;
}

export interface Scene {
  positions: Float32Array;
  shown: Uint8Array;
  /** The class that colours each point, or -1. */
  classes: Int16Array;
  /** 1 where the prediction is wrong. */
  wrong: Uint8Array;
  cones: Cone[];
  /** Which classes' cones are drawn. */
  visible: boolean[];
  names: string[];
  texts: Marked[];
  /** The point under the pointer, or -1. */
  pointed: number;
}

/** Draws points and cones on a canvas; the labels above it are drawn by `overlay`. */
export interface Drawing {
  readonly kind: "WebGL" | "2D";
  draw(scene: Scene, camera: Camera, theme: Theme, ratio: number): void;
  dispose(): void;
}

/** The size of a point in CSS pixels: smaller where there are many, or where the sphere is small. */
export function pointSize(count: number, { projection, width }: Camera): number {
  const base = count > 5000 ? 4 : count > 1500 ? 5 : 7;
  // The sphere's width on the canvas: the eye is five of its radii away.
  const across = (projection[0]! * width) / 5;
  return base * Math.min(1.8, Math.max(0.6, Math.sqrt(across / 500)));
}
