/** Draws the sphere when something changed, moves from layer to layer, and says which point is where. */

import type { Theme } from "../draw/colour";
import { type Camera, cameraOf, projectAll, type View } from "./camera";
import { between, type Cone } from "./data";
import { flat } from "./flat";
import { hit } from "./hit";
import { overlay } from "./overlay";
import type { Drawing, Marked, Scene } from "./scene";

/** How long a move from one layer to the next takes, in milliseconds. */
const MOVE = 450;

interface Move {
  from: Scene;
  began: number;
}

export type Maker = (canvas: HTMLCanvasElement) => Drawing | null;

export class Painter {
  private drawing: Drawing | null;
  private target: Scene | null = null;
  private scene: Scene | null = null;
  private move: Move | null = null;
  private camera: Camera = cameraOf({ yaw: 0, pitch: 0, zoom: 1 }, 1, 1);
  private theme: Theme | null = null;
  private waiting = 0;
  private spots: Float32Array | undefined;
  private spotsOf: Camera | null = null;
  /** How many frames were drawn, for those who measure. */
  frames = 0;

  constructor(
    canvas: HTMLCanvasElement,
    private readonly above: HTMLCanvasElement,
    make: Maker = flat,
  ) {
    this.drawing = make(canvas);
  }

  get kind(): "WebGL" | "2D" | null {
    return this.drawing?.kind ?? null;
  }

  /** The view that is drawn from now on. */
  see(view: View, width: number, height: number, theme: Theme): void {
    this.camera = cameraOf(view, width, height);
    this.theme = theme;
    this.wake();
  }

  /** The scene that is drawn from now on; with `moving` what is drawn now moves there. */
  show(scene: Scene, moving: boolean): void {
    const comparable = this.scene !== null && this.scene.positions.length === scene.positions.length;
    if (moving && comparable && this.scene !== null && scene.positions !== this.target?.positions) {
      this.move = { from: { ...this.scene, positions: this.scene.positions.slice() }, began: performance.now() };
    } else if (!comparable || !moving) this.move = null;
    this.target = scene;
    if (!this.move) this.scene = scene;
    this.wake();
  }

  /** The point at a place of the canvas, or -1. */
  at(x: number, y: number, radius: number): number {
    if (!this.scene) return -1;
    if (this.spotsOf !== this.camera || this.move) {
      this.spots = projectAll(this.camera, this.scene.positions, this.spots);
      this.spotsOf = this.camera;
    }
    return this.spots ? hit(this.spots, this.scene.shown, x, y, radius) : -1;
  }

  /** Asks for one frame; several asks before it are one. */
  wake(): void {
    if (this.waiting || !this.drawing) return;
    this.waiting = requestAnimationFrame((now) => {
      this.waiting = 0;
      this.frame(now);
    });
  }

  private frame(now: number): void {
    if (!this.target || !this.theme || !this.drawing) return;
    if (this.move) {
      const share = Math.min(1, Math.max(0, (now - this.move.began) / MOVE));
      this.scene = share >= 1 ? this.target : mixed(this.move.from, this.target, eased(share));
      if (share >= 1) this.move = null;
    }
    this.spotsOf = null;
    const scene = { ...this.scene!, pointed: this.target.pointed };
    const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
    this.drawing.draw(scene, this.camera, this.theme, ratio);
    overlay(this.above, scene, this.camera, this.theme, ratio);
    this.frames++;
    if (this.move) this.wake();
  }

  /** What is drawn now, on a canvas of its own. */
  picture(canvas: HTMLCanvasElement): HTMLCanvasElement {
    // A WebGL canvas is empty once the browser has shown it: it is drawn again in this very step.
    this.frame(performance.now());
    const out = canvas.ownerDocument.createElement("canvas");
    out.width = canvas.width;
    out.height = canvas.height;
    const pen = out.getContext("2d");
    pen?.drawImage(canvas, 0, 0);
    pen?.drawImage(this.above, 0, 0);
    return out;
  }

  dispose(): void {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    this.drawing?.dispose();
    this.drawing = null;
    this.target = null;
    this.scene = null;
  }
}

/** Slow at both ends. */
export function eased(share: number): number {
  return share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
}

/** A scene between two, by a share of the way. */
export function mixed(from: Scene, to: Scene, share: number): Scene {
  const positions = between(visibleOnly(from), to.positions, share, new Float32Array(to.positions.length));
  return {
    ...to,
    positions,
    cones: to.cones.map((cone, c) => coneBetween(from.cones[c], cone, share)),
    texts: to.texts.map((text) =>
      textBetween(
        from.texts.find(({ name }) => name === text.name),
        text,
        share,
      ),
    ),
  };
}

/** Positions with NaN where a point was not there before, so that it appears in its place instead of flying out of the centre. */
function visibleOnly({ positions, shown }: Scene): Float32Array {
  const out = positions.slice();
  shown.forEach((there, i) => {
    if (!there) out.fill(Number.NaN, i * 3, i * 3 + 3);
  });
  return out;
}

function coneBetween(from: Cone | undefined, to: Cone, share: number): Cone {
  if (!from || !Number.isFinite(from.degrees + from.axis[0])) return to;
  const step = (a: number, b: number) => a + (b - a) * share;
  const [a, b] = [from.axis, to.axis];
  return {
    axis: [step(a[0], b[0]), step(a[1], b[1]), step(a[2], b[2])],
    degrees: step(from.degrees, to.degrees),
  };
}

function textBetween(from: Marked | undefined, to: Marked, share: number): Marked {
  if (!from) return to;
  const tokens =
    from.tokens.length === to.tokens.length
      ? between(from.tokens, to.tokens, share, new Float32Array(to.tokens.length))
      : to.tokens;
  return { ...to, at: between(from.at, to.at, share, new Float32Array(to.at.length)), tokens };
}
