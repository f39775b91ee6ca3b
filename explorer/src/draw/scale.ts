/** From numbers to colours: one scale for what is shown together. */
import { at, css, DIVERGING, type Rgb, SEQUENTIAL } from "./colour";

export interface Scale {
  /** The number with the last colour; of differences, that without its sign. */
  most: number;
  signed: boolean;
  rgb: (value: number) => Rgb;
}

/** The largest number without its sign; 0 where there is none. */
export function largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]!);
    if (size > most && size !== Number.POSITIVE_INFINITY) most = size;
  }
  return most;
}

export function anyNegative(values: ArrayLike<number>): boolean {
  for (let i = 0; i < values.length; i++) if (values[i]! < 0) return true;
  return false;
}

/** From 0 to the largest; the root, as in the report, shows small weights too. */
export function rootScale(most: number): Scale {
  return {
    most,
    signed: false,
    rgb: (value) => at(SEQUENTIAL, most > 0 ? Math.sqrt(Math.max(0, value) / most) : value * 0),
  };
}

/** From 0 to the largest, evenly. */
export function evenScale(most: number): Scale {
  return { most, signed: false, rgb: (value) => at(SEQUENTIAL, most > 0 ? value / most : value * 0) };
}

/** Around zero. */
export function signedScale(most: number): Scale {
  return { most, signed: true, rgb: (value) => at(DIVERGING, most > 0 ? 0.5 + value / most / 2 : 0.5 + value * 0) };
}

/** The scale that numbers of this kind are shown with. */
export function scaleFor(values: ArrayLike<number>, signed: boolean, root: boolean): Scale {
  const most = largest(values);
  if (signed || anyNegative(values)) return signedScale(most);
  return root ? rootScale(most) : evenScale(most);
}

/** Some stops of a scale for its legend: number and colour. */
export function stopsOf(scale: Scale, count = 24): { value: number; colour: string }[] {
  const low = scale.signed ? -scale.most : 0;
  return Array.from({ length: count }, (_, i) => {
    const value = low + ((scale.most - low) * i) / (count - 1);
    return { value, colour: css(scale.rgb(value)) };
  });
}
