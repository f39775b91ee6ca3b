/** Texts of any origin, made fit to be shown: nothing invisible, nothing that turns the line around, nothing endless. */

/** Characters that reorder or hide text, or take no room; emojis keep the one that gives them colour. */
export const HIDDEN = /(?!\ufe0f)\p{Default_Ignorable_Code_Point}|[\u2028\u2029\ufff9-\ufffb]/gu;
const CONTROL = /[\u0000-\u001f\u007f]/gu;
const UPPER_CONTROL = /[\u0080-\u009f\ud800-\udfff]/gu;

/** The text with control and hidden characters as marks, cut after `most` characters. */
export function visible(text: string, most = 24): string {
  // Nothing beyond this can be shown, and a text may have 100,000 characters.
  const near = text.slice(0, most * 8 + 8);
  const marked = near.replace(CONTROL, pictureOf).replace(HIDDEN, codeOf).replace(UPPER_CONTROL, codeOf);
  const characters = [...marked];
  const whole = near.length === text.length && characters.length <= most;
  return whole ? marked : `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}

/** The picture of a control character, such as ␊. */
function pictureOf(character: string): string {
  const code = character.charCodeAt(0);
  return String.fromCharCode(code === 127 ? 0x2421 : 0x2400 + code);
}

function codeOf(character: string): string {
  return `⟨${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** The name of a model or result, which may be a long path: its end says most. */
export function shortName(name: string, most = 40): string {
  if ([...name].length <= most || !/[\\/]/.test(name)) return visible(name, most);
  const end = name.split(/[\\/]/).filter(Boolean).slice(-2).join("/");
  return visible(`…/${end}`, most);
}

/** A number with three digits that matter. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10_000 || size < 0.001) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  const text = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(size >= 0.9995 ? 2 : 3);
  return text.replace("-", "−");
}

/** A share of one in percent. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const share = value * 100;
  return `${share.toFixed(Math.abs(share) >= 99.95 || share === 0 ? 0 : 1).replace("-", "−")} %`;
}

/** Whitespace words of a text, as edits count them. */
export function wordsIn(text: string, pair: string | null = null): string[] {
  return `${text} ${pair ?? ""}`.split(/\s+/u).filter(Boolean);
}
