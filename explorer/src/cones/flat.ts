/** The cones on a 2D canvas, where there is no WebGL: the same scene by the same projection. */

import type { Theme } from "../draw/colour";
import { type Camera, projectAll } from "./camera";
import { colourOf } from "./colours";
import { rim, wireframe } from "./geometry";
import { farthestFirst } from "./hit";
import { type Drawing, pointSize, type Scene } from "./scene";

/** A drawing on this canvas; null where even a 2D canvas is missing. */
export function flat(canvas: HTMLCanvasElement): Drawing | null {
  const pen = canvas.getContext("2d", { alpha: false });
  return pen ? new FlatDrawing(canvas, pen) : null;
}

class FlatDrawing implements Drawing {
  readonly kind = "2D";
  private readonly lines = wireframe(8, 3, 32);
  private spots: Float32Array | undefined;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly pen: CanvasRenderingContext2D,
  ) {}

  draw(scene: Scene, camera: Camera, theme: Theme, ratio: number): void {
    sizeTo(this.canvas, camera, ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.fillStyle = theme.paper;
    this.pen.fillRect(0, 0, camera.width, camera.height);
    this.sphere(camera, theme);
    scene.cones.forEach((_, c) => {
      if (scene.visible[c]) this.cone(scene, c, camera, theme);
    });
    this.points(scene, camera, theme);
  }

  private sphere(camera: Camera, theme: Theme): void {
    const at = projectAll(camera, this.lines);
    const { pen } = this;
    pen.lineWidth = 1;
    pen.strokeStyle = theme.muted;
    pen.globalAlpha = 0.22;
    pen.beginPath();
    for (let i = 0; i < at.length; i += 6) {
      pen.moveTo(at[i]!, at[i + 1]!);
      pen.lineTo(at[i + 3]!, at[i + 4]!);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  private cone(scene: Scene, c: number, camera: Camera, theme: Theme): void {
    const { axis, degrees } = scene.cones[c]!;
    const edge = rim(axis, degrees, 48);
    if (!edge) return;
    const { pen } = this;
    const at = projectAll(camera, edge);
    const [middle, tip] = [projectAll(camera, new Float32Array(3)), projectAll(camera, Float32Array.from(axis))];
    pen.fillStyle = colourOf(c, theme.dark);
    pen.strokeStyle = pen.fillStyle;
    pen.globalAlpha = theme.dark ? 0.16 : 0.12;
    pen.beginPath();
    for (let i = 0; i + 3 < at.length; i += 3) this.triangle(middle, at.subarray(i, i + 3), at.subarray(i + 3, i + 6));
    pen.fill("nonzero");
    pen.globalAlpha = 1;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (let i = 0; i < at.length; i += 3) pen.lineTo(at[i]!, at[i + 1]!);
    pen.moveTo(middle[0]!, middle[1]!);
    pen.lineTo(tip[0]!, tip[1]!);
    pen.stroke();
  }

  /** Adds a triangle to the path, always the same way round, so that triangles seen from behind do not cancel others. */
  private triangle(tip: Float32Array, a: Float32Array, b: Float32Array): void {
    const [x, y] = [tip[0]!, tip[1]!];
    const turn = (a[0]! - x) * (b[1]! - y) - (a[1]! - y) * (b[0]! - x);
    const [first, second] = turn < 0 ? [b, a] : [a, b];
    this.pen.moveTo(x, y);
    this.pen.lineTo(first[0]!, first[1]!);
    this.pen.lineTo(second[0]!, second[1]!);
    this.pen.closePath();
  }

  private points(scene: Scene, camera: Camera, theme: Theme): void {
    this.spots = projectAll(camera, scene.positions, this.spots);
    const { pen, spots } = this;
    const size = pointSize(scene.shown.length, camera);
    for (const i of farthestFirst(spots, scene.shown)) {
      const [x, y] = [spots[i * 3]!, spots[i * 3 + 1]!];
      const colour = colourOf(scene.classes[i]!, theme.dark);
      pen.globalAlpha = 1 - 0.25 * Math.max(0, Math.min(2, spots[i * 3 + 2]! + 1));
      if (scene.wrong[i]) cross(pen, x, y, size * 0.7, colour);
      else {
        pen.fillStyle = colour;
        pen.fillRect(x - size * 0.4, y - size * 0.4, size * 0.8, size * 0.8);
      }
    }
    pen.globalAlpha = 1;
  }

  dispose(): void {
    this.spots = undefined;
  }
}

/** Makes the canvas as many pixels as the camera's canvas has on the screen. */
export function sizeTo(canvas: HTMLCanvasElement, camera: Camera, ratio: number): void {
  const [width, height] = [Math.round(camera.width * ratio), Math.round(camera.height * ratio)];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

/** An error's mark. */
function cross(pen: CanvasRenderingContext2D, x: number, y: number, reach: number, colour: string): void {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.6;
  pen.beginPath();
  pen.moveTo(x - reach, y - reach);
  pen.lineTo(x + reach, y + reach);
  pen.moveTo(x - reach, y + reach);
  pen.lineTo(x + reach, y - reach);
  pen.stroke();
}
