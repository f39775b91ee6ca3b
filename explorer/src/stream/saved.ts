/** The parts that are shown, as a table for files. */
import { csvOf, type Value } from "../draw/csv";
import type { Parts } from "./steps";

/** One row for each part: embeddings, heads, feed-forward parts, biases, the rest, the total. */
export function partsCsv(parts: Parts): string {
  const heads = parts.heads.flatMap((row, l) => row.map((value, h): Value[] => ["head", l + 1, h + 1, value]));
  const forward = parts.forward.map((value, l): Value[] => ["feed-forward", l + 1, null, value]);
  const rows: Value[][] = [
    ["embeddings", null, null, parts.embeddings],
    ...heads,
    ...forward,
    ["biases", null, null, parts.bias],
    ["rest", null, null, parts.rest],
    ["total", null, null, parts.total],
  ];
  return csvOf(
    ["part", "layer", "head", "value"],
    rows.filter(([part, , , value]) => part === "total" || Number.isFinite(value)),
  );
}
