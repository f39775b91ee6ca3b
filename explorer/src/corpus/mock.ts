/** A made-up corpus, with some hostile texts. */
import { type Answering, random } from "../mock";

const WORDS = "the soup was not good but waiter smiled bland cold warm bread and a room with great wine".split(" ");
const HOSTILE = ["<img src=x onerror=alert(1)>", "\u202etxet desrever", "</script><script>alert(2)</script>"];

interface Asked {
  query?: string;
  filter?: { label?: number | null; predicted?: number | null; errors?: boolean };
  sort?: string;
  offset?: number;
  limit?: number;
}

function rowOf(number: number) {
  const next = random(`row ${number}`);
  const label = Math.floor(next() * 3);
  const words = Array.from({ length: 4 + Math.floor(next() * 30) }, () => WORDS[Math.floor(next() * WORDS.length)]!);
  const text = number % 97 === 3 ? HOSTILE[number % 3]! : words.join(" ");
  const predicted = next() < 0.9 ? label : Math.floor(next() * 3);
  return {
    number,
    id: `test/${number}`,
    text,
    label,
    predicted,
    probability: 0.4 + next() * 0.6,
    angle: 10 + next() * 60,
  };
}

/** Answers of `corpus` and `example` for so many texts. */
export function corpusAnswers(size = 50_000): Record<string, Answering> {
  return {
    corpus: (asked: Asked) => {
      const { query = "", filter = {}, sort = "order", offset = 0, limit = 100 } = asked;
      const plain =
        !query && !filter.errors && typeof filter.label !== "number" && typeof filter.predicted !== "number";
      const window = (from: number, to: number) =>
        Array.from({ length: Math.max(0, to - from) }, (_, i) => rowOf(from + i));
      if (plain && sort === "order") {
        return { data: { total: size, rows: window(offset, Math.min(size, offset + limit)) }, arrays: {} };
      }
      const found = window(0, Math.min(size, 3000)).filter(
        (row) =>
          row.text.includes(query) &&
          (!filter.errors || row.label !== row.predicted) &&
          (typeof filter.label !== "number" || row.label === filter.label) &&
          (typeof filter.predicted !== "number" || row.predicted === filter.predicted),
      );
      if (sort === "farthest") found.sort((a, b) => b.angle - a.angle);
      if (sort === "margin") found.sort((a, b) => a.probability - b.probability);
      return { data: { total: found.length, rows: found.slice(offset, offset + limit) }, arrays: {} };
    },
    example: ({ number }: { number: number }) => {
      const { text, label, id } = rowOf(number);
      return { data: { text, pair: null, label, rationale: null, id }, arrays: {} };
    },
  };
}
