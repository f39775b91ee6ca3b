/** One way of drawing for the screen and for files: what paints a canvas also writes an SVG. */

export interface TextStyle {
  fill: string;
  size?: number;
  anchor?: "start" | "middle" | "end";
  bold?: boolean;
  /** The most pixels that the text may take; more is squeezed away at its end. */
  width?: number;
}

export interface Paint {
  rect(x: number, y: number, width: number, height: number, fill: string, alpha?: number): void;
  frame(x: number, y: number, width: number, height: number, stroke: string, line?: number): void;
  /** A smooth link between two points, flat at both ends. */
  link(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number, alpha: number): void;
  path(points: readonly (readonly [number, number])[], stroke: string, width: number, dashed?: boolean): void;
  text(x: number, y: number, text: string, style: TextStyle): void;
  /** Pixels (RGBA), stretched without smoothing. */
  image(x: number, y: number, width: number, height: number, pixels: Pixels): void;
}

export interface Pixels {
  columns: number;
  rows: number;
  data: Uint8ClampedArray<ArrayBuffer>;
}

/** Something that can be drawn at a size of its own. */
export interface Picture {
  width: number;
  height: number;
  draw: (paint: Paint) => void;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif';

export class CanvasPaint implements Paint {
  constructor(private readonly to: CanvasRenderingContext2D) {}

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    this.to.globalAlpha = alpha;
    this.to.fillStyle = fill;
    this.to.fillRect(x, y, width, height);
    this.to.globalAlpha = 1;
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, line = 1): void {
    this.to.strokeStyle = stroke;
    this.to.lineWidth = line;
    this.to.strokeRect(x, y, width, height);
  }

  link(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number, alpha: number): void {
    const middle = (x0 + x1) / 2;
    this.to.globalAlpha = alpha;
    this.to.strokeStyle = stroke;
    this.to.lineWidth = width;
    this.to.beginPath();
    this.to.moveTo(x0, y0);
    this.to.bezierCurveTo(middle, y0, middle, y1, x1, y1);
    this.to.stroke();
    this.to.globalAlpha = 1;
  }

  path(points: readonly (readonly [number, number])[], stroke: string, width: number, dashed = false): void {
    this.to.strokeStyle = stroke;
    this.to.lineWidth = width;
    this.to.setLineDash(dashed ? [5, 4] : []);
    this.to.beginPath();
    points.forEach(([x, y], i) => {
      if (i) this.to.lineTo(x, y);
      else this.to.moveTo(x, y);
    });
    this.to.stroke();
    this.to.setLineDash([]);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    this.to.font = `${style.bold ? "600 " : ""}${style.size ?? 12}px ${FONT}`;
    this.to.textAlign = style.anchor === "middle" ? "center" : style.anchor === "end" ? "right" : "left";
    this.to.textBaseline = "middle";
    this.to.fillStyle = style.fill;
    this.to.fillText(style.width === undefined ? text : this.fitted(text, style.width), x, y);
  }

  image(x: number, y: number, width: number, height: number, pixels: Pixels): void {
    if (!pixels.columns || !pixels.rows) return;
    const held = document.createElement("canvas");
    held.width = pixels.columns;
    held.height = pixels.rows;
    held.getContext("2d")?.putImageData(new ImageData(pixels.data, pixels.columns, pixels.rows), 0, 0);
    this.to.imageSmoothingEnabled = false;
    this.to.drawImage(held, x, y, width, height);
  }

  private fitted(text: string, width: number): string {
    if (this.to.measureText(text).width <= width) return text;
    const characters = [...text];
    let low = 0;
    let high = characters.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.to.measureText(`${characters.slice(0, middle).join("")}…`).width <= width) low = middle;
      else high = middle - 1;
    }
    return `${characters.slice(0, Math.max(1, low)).join("")}…`;
  }
}

/** Some letters are wider than others; this is the mean of a sans serif's, in shares of its size. */
const LETTER = 0.56;

export class SvgPaint implements Paint {
  private readonly parts: string[] = [];

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    const opacity = alpha < 1 ? ` fill-opacity="${short(alpha)}"` : "";
    this.parts.push(`<rect ${box(x, y, width, height)} fill="${escaped(fill)}"${opacity}/>`);
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, line = 1): void {
    const look = `fill="none" stroke="${escaped(stroke)}" stroke-width="${short(line)}"`;
    this.parts.push(`<rect ${box(x, y, width, height)} ${look}/>`);
  }

  link(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number, alpha: number): void {
    const [a, b, c, d, m] = [x0, y0, x1, y1, (x0 + x1) / 2].map(short);
    const look = `stroke="${escaped(stroke)}" stroke-width="${short(width)}" stroke-opacity="${short(alpha)}"`;
    this.parts.push(`<path d="M${a} ${b}C${m} ${b} ${m} ${d} ${c} ${d}" fill="none" ${look}/>`);
  }

  path(points: readonly (readonly [number, number])[], stroke: string, width: number, dashed = false): void {
    const places = points.map(([x, y]) => `${short(x)},${short(y)}`).join(" ");
    const dash = dashed ? ' stroke-dasharray="5 4"' : "";
    const look = `stroke="${escaped(stroke)}" stroke-width="${short(width)}"${dash}`;
    this.parts.push(`<polyline points="${places}" fill="none" ${look}/>`);
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const size = style.size ?? 12;
    const room = style.width === undefined ? Number.POSITIVE_INFINITY : Math.floor(style.width / (size * LETTER));
    const characters = [...text];
    const shown = characters.length > room ? `${characters.slice(0, Math.max(1, room - 1)).join("")}…` : text;
    const weight = style.bold ? ' font-weight="600"' : "";
    const look = `font-size="${size}" fill="${escaped(style.fill)}" text-anchor="${style.anchor ?? "start"}"${weight}`;
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" dy="0.35em" ${look}>${escaped(shown)}</text>`);
  }

  image(x: number, y: number, width: number, height: number, pixels: Pixels): void {
    const { columns, rows, data } = pixels;
    const [w, h] = [width / columns, height / rows];
    for (let row = 0; row < rows; row++) {
      // Equal neighbours are one rectangle, so that large maps stay files that open.
      for (let from = 0; from < columns; ) {
        const colour = colourAt(data, (row * columns + from) * 4);
        let to = from + 1;
        while (to < columns && colourAt(data, (row * columns + to) * 4) === colour) to++;
        this.parts.push(`<rect ${box(x + from * w, y + row * h, (to - from) * w, h)} fill="${colour}"/>`);
        from = to;
      }
    }
  }

  /** The file's text. */
  file(width: number, height: number, paper: string): string {
    const size = `width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}"`;
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${escaped(FONT)}">`;
    return `${head}<rect width="100%" height="100%" fill="${escaped(paper)}"/>${this.parts.join("")}</svg>\n`;
  }
}

function colourAt(data: Uint8ClampedArray, i: number): string {
  const value = (data[i]! << 16) | (data[i + 1]! << 8) | data[i + 2]!;
  return `#${value.toString(16).padStart(6, "0")}`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function box(x: number, y: number, width: number, height: number): string {
  return `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"`;
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Text for XML: marks as entities, and nothing that XML forbids. */
export function escaped(text: string): string {
  return text
    .replace(/[&<>"']/g, (mark) => ENTITIES[mark]!)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "");
}

/** The picture as an SVG file. */
export function svgOf(picture: Picture, paper: string): string {
  const paint = new SvgPaint();
  picture.draw(paint);
  return paint.file(picture.width, picture.height, paper);
}
