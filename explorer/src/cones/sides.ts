/** Which result each side's cones are of. */
import type { Hello } from "../protocol";

interface Chosen {
  model: number;
  modelB: number | null;
  result: number;
  resultB: number | null;
}

/** Only some results have the tables that cones are drawn of. */
export function haveCones(hello: Hello): number[] {
  return hello.results.flatMap(({ tables }, i) =>
    tables.length === 0 || tables.some((name) => name.startsWith("class_cones")) ? [i] : [],
  );
}

/** The results of A and of B: those that were chosen, else those that measured the side's model; null if there is none. */
export function resultsOf(hello: Hello, chosen: Chosen): { a: number | null; b: number | null } {
  const able = haveCones(hello);
  if (!able.length) return { a: null, b: null };
  const a = able.includes(chosen.result) ? chosen.result : able[0]!;
  if (chosen.resultB !== null && able.includes(chosen.resultB)) return { a, b: chosen.resultB };
  const ofB =
    chosen.modelB === null ? undefined : able.find((i) => hello.results[i]!.model === chosen.modelB && i !== a);
  return { a, b: ofB ?? a };
}
