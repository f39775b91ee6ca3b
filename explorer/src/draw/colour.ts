/** The colours of the project's figures: safe for the colour-blind, on white and on black. */

export type Rgb = readonly [number, number, number];

export const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A"] as const;
const VIRIDIS = "440154482475414487355f8d2a788e21918c22a88444bf707ad151bddf26fde725";
const BLUE_ORANGE = "134b852f78b35da2cb9dcae1d2e5eff2f0ebfce0bafbbf74e8932fc5690d994a07";

/** From low (0) to high (1). */
export const SEQUENTIAL = tableOf(VIRIDIS);
/** From below zero (0) over zero (0.5) to above (1). */
export const DIVERGING = tableOf(BLUE_ORANGE);
/** What has no number. */
export const MISSING: Rgb = [138, 138, 138];

/** 256 colours between the given ones. */
function tableOf(hex: string): Uint8Array {
  const stops = hex.match(/.{6}/g)!.map((stop) => rgbOf(`#${stop}`));
  const out = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const mixed = mix(stops[low]!, stops[low + 1]!, at - low);
    out.set(mixed, i * 3);
  }
  return out;
}

export function rgbOf(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** The first colour with a share of the second. */
export function mix(one: Rgb, other: Rgb, share: number): Rgb {
  const at = (i: number) => Math.round(one[i]! + (other[i]! - one[i]!) * share);
  return [at(0), at(1), at(2)];
}

export function css(rgb: Rgb): string {
  return `rgb(${rgb[0]}, ${rgb[1]}, ${rgb[2]})`;
}

/** The colour at a share of a table; grey for what is no number. */
export function at(table: Uint8Array, share: number): Rgb {
  if (Number.isNaN(share)) return MISSING;
  const i = Math.round(Math.max(0, Math.min(1, share)) * 255) * 3;
  return [table[i]!, table[i + 1]!, table[i + 2]!];
}

/** Black or white, whichever reads on the colour. */
export function inkOn(rgb: Rgb): string {
  const linear = rgb.map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0]! + 0.7152 * linear[1]! + 0.0722 * linear[2]!;
  // Here the contrasts of black and of white are equal.
  return light > 0.179 ? "#000000" : "#ffffff";
}

export interface Theme {
  dark: boolean;
  paper: string;
  ink: string;
  muted: string;
  line: string;
  shade: string;
  accent: string;
}

export const LIGHT: Theme = {
  dark: false,
  paper: "#ffffff",
  ink: "#1f2328",
  muted: "#57606a",
  line: "#d8dee4",
  shade: "#f6f8fa",
  accent: "#0a5ea8",
};

export const DARK: Theme = {
  dark: true,
  paper: "#15181c",
  ink: "#e4e7eb",
  muted: "#a3abb5",
  line: "#333a42",
  shade: "#1d2126",
  accent: "#7fb8f0",
};

const FOR = "#E6781E";
const AGAINST = "#3C78C8";

/** The background of a word with a score, as a share of the largest: orange for, blue against, as in the report. */
export function wordColour(share: number, theme: Theme): Rgb {
  const paper = rgbOf(theme.paper);
  if (Number.isNaN(share)) return paper;
  const hue = rgbOf(share < 0 ? AGAINST : FOR);
  return mix(paper, hue, Math.min(1, Math.abs(share)) * 0.85);
}
