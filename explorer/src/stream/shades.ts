/** Colours of numbers with a sign: orange below 0, blue above, the ground at 0. */

const ENDS = {
  light: { less: [201, 82, 0], none: [246, 246, 246], more: [0, 90, 158] },
  dark: { less: [255, 145, 66], none: [38, 42, 49], more: [90, 176, 240] },
} as const;

/** The colour of a value where `most` has the strongest one. */
export function shade(value: number, most: number, dark: boolean): string {
  const { less, none, more } = ENDS[dark ? "dark" : "light"];
  const end = value < 0 ? less : more;
  const share = most > 0 && Number.isFinite(value) ? Math.min(1, Math.abs(value) / most) : 0;
  const part = (i: 0 | 1 | 2) => Math.round(none[i] + (end[i] - none[i]) * share);
  return `rgb(${part(0)}, ${part(1)}, ${part(2)})`;
}

/** Black or white, whichever is read more easily on that shade. */
export function inkOn(value: number, most: number, dark: boolean): string {
  const [red = 0, green = 0, blue = 0] = shade(value, most, dark).match(/\d+/g)?.map(Number) ?? [];
  return luminance(red, green, blue) > 0.18 ? "#000000" : "#ffffff";
}

function luminance(...parts: [number, number, number]): number {
  const [red, green, blue] = parts.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
