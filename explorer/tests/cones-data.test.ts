import { describe, expect, test } from "vitest";
import {
  classAngles,
  degrees,
  difference,
  explainedSum,
  meanBetween,
  sameClasses,
  textAngles,
  tokenAngles,
} from "../src/cones/angles";
import {
  type ConesData,
  type ConesReply,
  cloudOf,
  conesOf,
  type PlaceReply,
  pathOf,
  placeRow,
  radiusOf,
  rowOf,
  tokensOf,
  triples,
} from "../src/cones/data";
import { drawnAngle } from "../src/cones/geometry";
import { conesAnswers } from "../src/cones/mock";
import { eased, mixed } from "../src/cones/painter";
import { type Choice, counted, marksOf, nextShown, sceneOf } from "../src/cones/picture";
import { anglesCsv } from "../src/cones/saved";
import { haveCones, resultsOf } from "../src/cones/sides";
import { HELLO } from "../src/mock";
import type { Reply } from "../src/protocol";

const made = { classes: ["bad", "fair", "good"], points: 60, sampled: 2 };
const answers = conesAnswers(made);
const ask = (verb: string, params: object) => answers[verb]!(params as never, null as never) as Reply<never>;
const cones = ask("cones", { result: 0 }) as ConesReply;
const place = ask("place", { text: "some words here", result: 0, site: "hidden" }) as PlaceReply;
const choice: Choice = { site: "hidden", row: 4, lengths: false, hidden: new Set(), errorsOnly: false };

test("a layer that a site has not is shown by the nearest that it has", () => {
  const data = { layers: { key: [1, 2, 3], hidden: [0, 1, 2, 3] } } as unknown as ConesData;
  expect(rowOf(data, "hidden", 0)).toBe(0);
  expect(rowOf(data, "key", 0)).toBe(0);
  expect(rowOf(data, "key", 3)).toBe(2);
  expect(rowOf(data, "key", 9)).toBe(2);
  expect(rowOf(data, "none", 3)).toBe(0);
});

test("turning the first axis up keeps angles", () => {
  const turned = triples({ shape: [1, 2, 3], values: Float32Array.from([1, 0, 0, 0.2, 0.5, -0.4]) }, 0);
  expect([...turned.subarray(0, 3)]).toEqual([0, 1, 0]);
  const before = drawnAngle([1, 0, 0], [0.2, 0.5, -0.4])!;
  expect(drawnAngle([0, 1, 0], [turned[3]!, turned[4]!, turned[5]!])!).toBeCloseTo(before, 4);
});

test("vectors with fewer axes than three lie in the axes that there are; those without any are nowhere", () => {
  const values = Float32Array.from([0.5, 0.25, Number.NaN, Number.NaN, Number.NaN, Number.NaN]);
  expect([...triples({ shape: [1, 2, 3], values }, 0)]).toEqual([0, 0.5, 0.25, Number.NaN, Number.NaN, Number.NaN]);
});

test("points of a layer without a sample are not shown", () => {
  expect(cloudOf(cones.arrays, "hidden", 0, false).shown.some(Boolean)).toBe(false);
  expect(cloudOf(cones.arrays, "hidden", 3, false).shown.every(Boolean)).toBe(true);
  expect(cloudOf(cones.arrays, "hidden", 0, false).positions.every(Number.isFinite)).toBe(true);
});

test("points are within the unit sphere, and with true lengths as far out as their length says", () => {
  const unit = cloudOf(cones.arrays, "hidden", 5, false);
  const long = cloudOf(cones.arrays, "hidden", 5, true);
  const lengths = cones.arrays["length:hidden"]!.values.subarray(5 * 60, 6 * 60);
  for (let i = 0; i < 60; i++) {
    const size = Math.hypot(...unit.positions.subarray(i * 3, i * 3 + 3));
    expect(size).toBeLessThanOrEqual(1 + 1e-6);
    expect(Math.hypot(...long.positions.subarray(i * 3, i * 3 + 3)) * long.radius!).toBeCloseTo(
      size * Math.abs(lengths[i]!),
      4,
    );
  }
});

test("one example in ten is longer than the sphere's radius", () => {
  expect(radiusOf(Float32Array.from([11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, Number.NaN]))).toBe(10);
  expect(radiusOf(new Float32Array(0))).toBeNull();
});

test("axes and angles of cones are those of the reply", () => {
  const drawn = conesOf(cones.arrays, "hidden", 4, 3);
  expect(drawn.map((cone) => cone.degrees)).toEqual([...cones.arrays["angle:hidden"]!.values.subarray(12, 15)]);
  expect(drawnAngle(drawn[0]!.axis, drawn[1]!.axis)!).toBeCloseTo(classAngles(cones, "hidden", 4)[0]![1]!, 3);
});

describe("a text", () => {
  test("has one place in each layer of the site, and one for each token", () => {
    expect(pathOf(place, cones, "hidden", false).length).toBe(7 * 3);
    expect(tokensOf(place, cones, "hidden", 4, false).length).toBe(5 * 3);
  });

  test("is found by the number of the layer where the reply has other layers than the result", () => {
    const fewer = { ...place, data: { layers: [1, 2, 3] } };
    expect(placeRow(fewer, 2, 7)).toBe(1);
    expect(placeRow({ ...place, data: {} }, 2, 7)).toBe(7);
    const path = pathOf(fewer, cones, "hidden", false);
    expect(Number.isNaN(path[0])).toBe(true);
    expect(path[3]).toBe(triples(place.arrays.text, 0)[0]);
    expect(textAngles(fewer, 0, 0, 3)).toEqual([null, null, null]);
  });

  test("has an angle to each class, as have its tokens", () => {
    const values = place.arrays.text_angles!.values;
    expect(textAngles(place, 4, 4, 3)).toEqual([...values.subarray(12, 15)]);
    expect(tokenAngles(place, 4, 4, 3)).toHaveLength(5);
    expect(textAngles(null, 4, 4, 3)).toEqual([null, null, null]);
  });
});

describe("angles", () => {
  test("are shown with their degree sign, and with their sign where they are differences", () => {
    expect(degrees(12.34)).toBe("12.3°");
    expect(degrees(-12.34, true)).toBe("−12.3°");
    expect(degrees(0.01, true)).toBe("0.0°");
    expect(degrees(5, true)).toBe("+5.0°");
    expect(degrees(null)).toBe("–");
  });

  test("have no difference where one is not known", () => {
    expect(difference(10, 25)).toBe(15);
    expect(difference(null, 25)).toBeNull();
  });

  test("between classes are averaged over pairs, once each", () => {
    const angles = [
      [0, 30, 60],
      [30, 0, null],
      [60, null, 0],
    ];
    expect(meanBetween(angles)).toBe(45);
    expect(meanBetween([[0]])).toBeNull();
  });

  test("are subtracted between results of the same classes only", () => {
    const other = { ...cones, data: { ...cones.data, classes: ["bad", "good", "fair"] } };
    expect(sameClasses(cones, cones)).toBe(true);
    expect(sameClasses(cones, other)).toBe(false);
  });

  test("explained shares are summed, or unknown if one is", () => {
    expect(explainedSum([0.5, 0.25, 0.125])).toBe(0.875);
    expect(explainedSum([0.5, null, 0.1])).toBeNull();
    expect(explainedSum(null)).toBeNull();
  });
});

describe("a scene", () => {
  test("hides the points and cones of classes that are hidden", () => {
    const all = counted(sceneOf(cones, choice), cones.data.points).shown;
    const some = sceneOf(cones, { ...choice, hidden: new Set([1]) });
    const ofClass = cones.data.points.filter(({ label }) => label === 1).length;
    expect(counted(some, cones.data.points).shown).toBe(all - ofClass);
    expect(some.visible).toEqual([true, false, true]);
  });

  test("of errors alone has exactly the examples whose prediction is not their label", () => {
    const errors = cones.data.points.filter(({ label, predicted }) => label !== predicted).length;
    expect(counted(sceneOf(cones, { ...choice, errorsOnly: true }), cones.data.points)).toEqual({
      shown: errors,
      wrong: errors,
    });
  });

  test("counts no errors where no answer is known", () => {
    const unknown = cones.data.points.map((point) => ({ ...point, predicted: null }));
    const silent = { ...cones, data: { ...cones.data, points: unknown } };
    expect(counted(sceneOf(silent, choice), unknown).wrong).toBeNull();
  });

  test("is stepped through in the order of the sample, around its end", () => {
    const shown = Uint8Array.from([0, 1, 0, 1]);
    expect(nextShown(shown, -1, 1)).toBe(1);
    expect(nextShown(shown, 1, 1)).toBe(3);
    expect(nextShown(shown, 3, 1)).toBe(1);
    expect(nextShown(shown, 1, -1)).toBe(3);
    expect(nextShown(Uint8Array.from([0, 0]), 0, 1)).toBe(-1);
  });

  test("between two layers begins at the one and ends at the other", () => {
    const [from, to] = [sceneOf(cones, { ...choice, row: 3 }), sceneOf(cones, choice)];
    const marks = marksOf(cones, choice, [{ name: "A", colour: "#000000", place }]);
    const [a, b] = [
      { ...from, texts: marks },
      { ...to, texts: marks },
    ];
    expect(mixed(a, b, 0).positions).toEqual(from.positions);
    expect(mixed(a, b, 1).positions).toEqual(to.positions);
    expect(mixed(a, b, 0.5).cones[0]!.degrees).toBeCloseTo((from.cones[0]!.degrees + to.cones[0]!.degrees) / 2);
    expect(eased(0)).toBe(0);
    expect(eased(1)).toBe(1);
  });

  test("shows a point at once where the layer before had none", () => {
    const [from, to] = [sceneOf(cones, { ...choice, row: 0 }), sceneOf(cones, { ...choice, row: 2 })];
    expect(mixed(from, to, 0).positions).toEqual(to.positions);
  });
});

describe("the results of A and B", () => {
  const result = { ...HELLO.results[0]!, tables: ["class_cones"] };
  const hello = (...names: string[]) => ({
    ...HELLO,
    results: names.map((name, model) => ({ ...result, model, name })),
  });
  const chosen = { model: 0, modelB: null, result: 0, resultB: null };

  test("are only those that have cones", () => {
    const mixedTables = { ...HELLO, results: [{ ...result, tables: ["sim"] }, result] };
    expect(haveCones(mixedTables)).toEqual([1]);
    expect(resultsOf(mixedTables, chosen)).toEqual({ a: 1, b: 1 });
    expect(resultsOf({ ...HELLO, results: [] }, chosen)).toEqual({ a: null, b: null });
  });

  test("follow the model of B unless one was chosen", () => {
    const two = hello("bistro-small", "reviews-twelve");
    expect(resultsOf(two, { ...chosen, modelB: 1 })).toEqual({ a: 0, b: 1 });
    expect(resultsOf(two, chosen)).toEqual({ a: 0, b: 0 });
    expect(resultsOf(two, { ...chosen, resultB: 1 })).toEqual({ a: 0, b: 1 });
  });

  test("are those of the models that are shown, where these were measured", () => {
    const two = hello("bistro-small", "reviews-twelve");
    expect(resultsOf(two, { ...chosen, model: 1 })).toEqual({ a: 1, b: 1 });
    expect(resultsOf(two, { ...chosen, model: 1, modelB: 0, resultB: 1 })).toEqual({ a: 1, b: 0 });
    expect(resultsOf(two, { ...chosen, model: 2, result: 1 })).toEqual({ a: 1, b: 1 });
    const alone = { ...two, models: [], results: two.results.map((one) => ({ ...one, model: null })) };
    expect(resultsOf(alone, { ...chosen, result: 1, resultB: 0 })).toEqual({ a: 1, b: 0 });
  });
});

test("the saved table has each pair of classes once, each cone, and each text and class", () => {
  const drawn = conesOf(cones.arrays, "hidden", 4, 3);
  const at = { name: "out", side: "", cones, site: "hidden", row: 4, layer: 4, drawn };
  const lines = anglesCsv([at], [{ name: "=Text", place, tokens: [], at }])
    .trim()
    .split("\r\n");
  expect(lines).toHaveLength(1 + 3 + 3 + 3);
  expect(lines[1]).toMatch(/^out,hidden,4,bad,fair,70\.\d+,70\.\d+$/);
  expect(lines.at(-1)).toMatch(/^out,hidden,4,'=Text,good,/);
});
