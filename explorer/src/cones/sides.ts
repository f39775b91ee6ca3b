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

/** The results of A and of B: those that were chosen if they measured the side's model, else the first that did, else any. */
export function resultsOf(hello: Hello, chosen: Chosen): { a: number | null; b: number | null } {
  const able = haveCones(hello);
  const modelOf = (result: number) => hello.results[result]!.model;
  const ofModel = (model: number | null, one: number | null) => {
    const own = able.filter((result) => model !== null && modelOf(result) === model);
    return one !== null && own.includes(one) ? one : own[0];
  };
  const given = able.includes(chosen.result) ? chosen.result : able[0];
  const a = ofModel(chosen.model, chosen.result) ?? given;
  if (a === undefined) return { a: null, b: null };
  const { modelB, resultB } = chosen;
  if (modelB !== null) return { a, b: ofModel(modelB, resultB) ?? a };
  return { a, b: resultB !== null && able.includes(resultB) ? resultB : a };
}
