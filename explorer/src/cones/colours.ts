/** Colours that people with colour blindness can tell apart (Okabe and Ito), for classes and for texts. */

const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#b0569a", "#a87b00", "#3a9fd8", "#5b5b5b", "#7a3e9d"];
const DARK = ["#56b4e9", "#ff8a3d", "#2fc79a", "#e39ac8", "#f0c24a", "#8fd0ff", "#b9b9b9", "#c79bea"];

/** The colour of a class; classes beyond the eighth begin again. */
export function colourOf(index: number | null, dark: boolean): string {
  const colours = dark ? DARK : LIGHT;
  return index === null || index < 0 ? (dark ? "#9a9a9a" : "#757575") : colours[index % colours.length]!;
}

/** Red, green and blue of a colour #rrggbb, from 0 to 1. */
export function rgb(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [((value >> 16) & 255) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}
