/** What lies over both drawings: names of classes, the chosen texts with their paths, the point under the pointer. */

import type { Theme } from "../draw/colour";
import { visible } from "../draw/text";
import { type Camera, projectAll } from "./camera";
import { colourOf } from "./colours";
import { sizeTo } from "./flat";
import type { Marked, Scene } from "./scene";

const FONT = "600 13px system-ui, sans-serif";

/** Draws it on a canvas that lies over the drawing. */
export function overlay(canvas: HTMLCanvasElement, scene: Scene, camera: Camera, theme: Theme, ratio: number): void {
  // Kept off the graphics processor, which has enough to do where it is made of software.
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  if (!pen) return;
  sizeTo(canvas, camera, ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, camera.width, camera.height);
  pen.font = FONT;
  pen.lineJoin = "round";
  const taken: Box[] = [];
  scene.cones.forEach((_, c) => {
    if (scene.visible[c]) className(pen, scene, c, camera, theme, taken);
  });
  for (const text of scene.texts) marked(pen, text, camera, theme);
  if (scene.pointed >= 0) ring(pen, scene, camera, theme);
}

/** Where a name is: its left end, its middle height, its width. */
export interface Box {
  x: number;
  y: number;
  width: number;
}

const LINE = 19;

/** The nearest height at which a name lies over none of those that are there. */
export function free(box: Box, taken: Box[], low: number, high: number): number {
  const clear = (y: number) =>
    taken.every(
      (other) => Math.abs(other.y - y) >= LINE || box.x > other.x + other.width + 8 || other.x > box.x + box.width + 8,
    );
  for (let step = 0; step <= 2 * taken.length; step++) {
    const y = box.y + (step % 2 ? 1 : -1) * Math.ceil(step / 2) * LINE;
    if (y >= low && y <= high && clear(y)) return y;
  }
  return box.y;
}

function className(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  c: number,
  camera: Camera,
  theme: Theme,
  taken: Box[],
): void {
  const { axis } = scene.cones[c]!;
  const size = Math.hypot(...axis);
  if (!(size > 1e-9)) return;
  const reach = Math.max(1.06, size + 0.06) / size;
  const at = projectAll(
    camera,
    Float32Array.from(axis, (value) => value * reach),
  );
  const name = visible(scene.names[c] ?? "");
  const width = pen.measureText(name).width;
  const x = Math.max(4, Math.min(camera.width - width - 4, at[0]! - width / 2));
  const wish = Math.max(14, Math.min(camera.height - 6, at[1]! + 4));
  const y = free({ x, y: wish, width }, taken, 14, camera.height - 6);
  taken.push({ x, y, width });
  written(pen, name, x, y, colourOf(c, theme.dark), theme);
}

function marked(pen: CanvasRenderingContext2D, text: Marked, camera: Camera, theme: Theme): void {
  pen.strokeStyle = text.colour;
  pen.fillStyle = text.colour;
  path(pen, projectAll(camera, text.path));
  const tokens = projectAll(camera, text.tokens);
  pen.lineWidth = 1.5;
  for (let i = 0; i < tokens.length; i += 3) {
    if (!Number.isFinite(tokens[i]!)) continue;
    pen.strokeRect(tokens[i]! - 2.5, tokens[i + 1]! - 2.5, 5, 5);
  }
  const [x, y] = projectAll(camera, text.at);
  if (x === undefined || y === undefined || !Number.isFinite(x + y)) return;
  pen.beginPath();
  pen.arc(x, y, 8, 0, 2 * Math.PI);
  pen.fill();
  pen.lineWidth = 2;
  pen.strokeStyle = theme.paper;
  pen.stroke();
  pen.fillStyle = theme.paper;
  pen.font = "700 11px system-ui, sans-serif";
  pen.fillText(text.name, x - pen.measureText(text.name).width / 2, y + 4);
  pen.font = FONT;
}

/** The path over the layers: it grows thicker towards the last one, so that its direction is seen. */
function path(pen: CanvasRenderingContext2D, at: Float32Array): void {
  const count = at.length / 3;
  for (let i = 1; i < count; i++) {
    const [x, y, u, v] = [at[i * 3 - 3]!, at[i * 3 - 2]!, at[i * 3]!, at[i * 3 + 1]!];
    if (!Number.isFinite(x + y + u + v)) continue;
    pen.lineWidth = 1 + (2 * i) / count;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(u, v);
    pen.stroke();
    pen.beginPath();
    pen.arc(u, v, 2.5, 0, 2 * Math.PI);
    pen.fill();
  }
}

function ring(pen: CanvasRenderingContext2D, scene: Scene, camera: Camera, theme: Theme): void {
  const i = scene.pointed * 3;
  const at = projectAll(camera, scene.positions.slice(i, i + 3));
  pen.lineWidth = 2.5;
  pen.strokeStyle = theme.ink;
  pen.beginPath();
  pen.arc(at[0]!, at[1]!, 8, 0, 2 * Math.PI);
  pen.stroke();
}

function written(
  pen: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  colour: string,
  theme: Theme,
): void {
  pen.globalAlpha = 0.85;
  pen.fillStyle = theme.paper;
  pen.fillRect(x - 4, y - 13, pen.measureText(text).width + 8, 18);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}
