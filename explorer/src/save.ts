/** Copies and files of what is on the screen. */
import type { Exportable } from "./context";
import { LIGHT } from "./draw/colour";
import { CanvasPaint, type Picture, svgOf } from "./draw/paint";

/** Copies a text; false where the browser refuses. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages from disk have no clipboard of their own.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Lets the browser save a file. */
export function saveFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveSvg({ name, picture }: Exportable): void {
  const drawn = picture?.(LIGHT);
  if (drawn) saveFile(`${name}.svg`, new Blob([svgOf(drawn, LIGHT.paper)], { type: "image/svg+xml" }));
}

export function saveCsv({ name, csv }: Exportable): void {
  if (csv) saveFile(`${name}.csv`, new Blob([csv()], { type: "text/csv;charset=utf-8" }));
}

export function savePng({ name, picture, canvas }: Exportable): void {
  const drawn = picture?.(LIGHT);
  const source = drawn ? canvasOf(drawn, 2) : canvas?.();
  source?.toBlob((content) => {
    if (content) saveFile(`${name}.png`, content);
  }, "image/png");
}

function canvasOf(picture: Picture, ratio: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(picture.width * ratio);
  canvas.height = Math.ceil(picture.height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  context.scale(ratio, ratio);
  context.fillStyle = LIGHT.paper;
  context.fillRect(0, 0, picture.width, picture.height);
  picture.draw(new CanvasPaint(context));
  return canvas;
}
