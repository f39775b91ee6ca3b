/** Coloured words as a picture, for files: one block of lines for each method. */
import { css, inkOn, type Theme, wordColour } from "./colour";
import type { Picture } from "./paint";
import { visible } from "./text";

export interface ScoredRow {
  method: string;
  scores: readonly number[];
}

/** The largest score of a row without its sign; 0 where there is none. */
export function mostOf(scores: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < scores.length; i++) if (Math.abs(scores[i]!) > most) most = Math.abs(scores[i]!);
  return most;
}

interface Placed {
  text: string;
  word: number;
  x: number;
  line: number;
  width: number;
}

const LETTER = 7.6;
const LINE = 26;

/** Words one after the other in lines of this width. */
export function flow(words: readonly string[], width: number): { placed: Placed[]; lines: number } {
  const placed: Placed[] = [];
  let [x, line] = [0, 0];
  words.forEach((word, i) => {
    const text = visible(word, 32);
    const size = [...text].length * LETTER + 8;
    if (x > 0 && x + size > width) [x, line] = [0, line + 1];
    placed.push({ text, word: i, x, line, width: size });
    x += size + 3;
  });
  return { placed, lines: line + 1 };
}

export function wordsPicture(
  words: readonly string[],
  rows: readonly ScoredRow[],
  width: number,
  theme: Theme,
): Picture {
  const { placed, lines } = flow(words, width - 24);
  const block = 26 + lines * LINE + 10;
  return {
    width,
    height: rows.length * block + 16,
    draw: (paint) => {
      rows.forEach(({ method, scores }, i) => {
        const top = 12 + i * block;
        const most = mostOf(scores);
        paint.text(12, top + 10, method, { fill: theme.muted, size: 12, bold: true });
        for (const { text, word, x, line, width: size } of placed) {
          const ground = wordColour(most > 0 ? (scores[word] ?? Number.NaN) / most : Number.NaN, theme);
          const y = top + 24 + line * LINE;
          paint.rect(12 + x, y, size, LINE - 4, css(ground));
          paint.text(12 + x + size / 2, y + (LINE - 4) / 2, text, { fill: inkOn(ground), size: 13, anchor: "middle" });
        }
      });
    },
  };
}
