import { describe, expect, test } from "vitest";
import { answerOf, HELLO, MockHost } from "../src/mock";
import type { Reply } from "../src/protocol";
import { across, domainOf, down, pathOf, spread, ticks } from "../src/stream/layers";
import { streamAnswers } from "../src/stream/mock";
import { partsCsv } from "../src/stream/saved";
import { inkOn, shade } from "../src/stream/shades";
import {
  adds,
  isTurned,
  largest,
  minus,
  missing,
  type Parts,
  partsOf,
  range,
  type StreamReply,
  signed,
  turnOf,
  waterfall,
} from "../src/stream/steps";

const PARTS: Parts = {
  embeddings: 0.5,
  heads: [
    [0.25, -1, Number.NaN],
    [2, 0.5, 0.25],
  ],
  forward: [Number.NaN, -0.75],
  bias: 0.125,
  rest: -0.0625,
  total: 1.8125,
};

function mocked(text: string, model = 0): StreamReply {
  const input = { model, text, pair: null, edits: {} };
  return streamAnswers.stream!(input as never, new MockHost(HELLO)) as Reply<never>;
}

describe("the waterfall", () => {
  test("begins each step where the one before ended, and ends in the total", () => {
    const steps = waterfall(PARTS);
    let level = 0;
    for (const step of steps) {
      expect(step.from).toBe(level);
      expect(step.to).toBe(level + step.value);
      level = step.to;
    }
    expect(level).toBe(PARTS.total);
    expect(missing(steps, PARTS.total)).toBe(0);
  });

  test("goes through a layer's heads before its feed-forward part, and leaves out what a layer has not", () => {
    const names = waterfall(PARTS).map(({ kind, layer }) => `${layer ?? ""}${kind}`);
    expect(names).toEqual(["embeddings", "1heads", "2heads", "2forward", "bias", "rest"]);
  });

  test("has no feed-forward steps for a model that has none", () => {
    const none = waterfall({ ...PARTS, forward: [0, 0] });
    expect(none.some(({ kind }) => kind === "forward")).toBe(false);
  });

  test.each([0, 1])("of a reply sums to the difference of its logits", (model) => {
    const text = "the soup was not good";
    const { logits, predicted } = answerOf({ model, text, pair: null, edits: {} }, HELLO.models[model]!);
    const parts = partsOf(mocked(text, model));
    const steps = waterfall(parts);
    expect(adds(steps, parts.total)).toBe(true);
    expect(steps.at(-1)!.to).toBeCloseTo(logits[predicted!]! - logits[1 - predicted!]!, 4);
  });

  test("says that it does not add up where parts are missing", () => {
    const steps = waterfall({ ...PARTS, rest: 0 });
    expect(adds(steps, PARTS.total)).toBe(false);
    expect(missing(steps, PARTS.total)).toBe(-0.0625);
  });

  test("has room for every step, for zero and for the total", () => {
    const steps = waterfall(PARTS);
    const [low, high] = range(steps, PARTS.total);
    for (const { from, to } of steps) {
      expect(Math.min(from, to, 0)).toBeGreaterThanOrEqual(low);
      expect(Math.max(from, to, PARTS.total)).toBeLessThanOrEqual(high);
    }
    expect(range([], 0)).toEqual([-1, 1]);
  });
});

describe("B minus A", () => {
  test("is part by part, sums to the difference of the totals, and is nothing for the same text", () => {
    const [a, b] = [partsOf(mocked("the soup was not good", 1)), partsOf(mocked("warm bread", 1))];
    const parts = minus(b, a);
    expect(parts.total).toBeCloseTo(b.total - a.total, 6);
    expect(adds(waterfall(parts), parts.total)).toBe(true);
    expect(largest(minus(a, a).heads.flat())).toBe(0);
  });

  test("counts a layer that one model lacks as nothing added there", () => {
    const shorter = { ...PARTS, heads: [[0.25, -1]], forward: [] };
    const parts = minus(PARTS, shorter);
    expect(parts.heads[0]).toEqual([0, 0, Number.NaN]);
    expect(parts.heads[1]).toEqual([2, 0.5, 0.25]);
    expect(parts.forward).toEqual([Number.NaN, -0.75]);
  });

  test("turns the other way round where the answers are each other's runner-up, and is refused for other classes", () => {
    const data = (first: number, other: number) => ({
      class: first,
      other,
      difference: 1,
      rest: 0,
      labels: ["x", "y", "z"],
    });
    expect(turnOf(data(0, 1), data(0, 1))).toBe(1);
    expect(turnOf(data(0, 1), data(1, 0))).toBe(-1);
    expect(turnOf(data(0, 1), data(0, 2))).toBeNull();
    const reply = mocked("the soup was not good");
    expect(partsOf(reply, -1).total).toBe(-partsOf(reply).total);
    expect(waterfall(partsOf(reply, -1)).at(-1)!.to).toBeCloseTo(-waterfall(partsOf(reply)).at(-1)!.to, 6);
  });
});

test("numbers have a sign unless they round to zero", () => {
  expect([signed(1.005, 1), signed(-0.26, 1), signed(-0.001), signed(null), signed(Number.NaN)]).toEqual([
    "+1.0",
    "−0.3",
    "0.00",
    "–",
    "–",
  ]);
});

test("the saved table has all parts that there are, and the total", () => {
  const lines = partsCsv(PARTS).trim().split("\r\n");
  expect(lines).toHaveLength(1 + 1 + 5 + 1 + 1 + 1 + 1);
  expect(lines.at(-1)).toBe("total,,,1.8125");
  expect(lines).toContain("head,2,1,2");
});

describe("shades", () => {
  test("are the ground at 0 and the strongest at the largest value, on both sides", () => {
    expect(shade(0, 2, false)).toBe("rgb(246, 246, 246)");
    expect(shade(2, 2, false)).toBe("rgb(0, 90, 158)");
    expect(shade(-2, 2, false)).toBe("rgb(201, 82, 0)");
    expect(shade(-1, 0, true)).toBe(shade(0, 1, true));
    expect(shade(Number.NaN, 1, true)).toBe(shade(0, 1, true));
  });

  test.each([true, false])("have ink that is read on them (contrast of 4.5 and more), dark %s", (dark) => {
    const luminance = (colour: string) => {
      const parts = colour.startsWith("#")
        ? colour === "#000000"
          ? [0, 0, 0]
          : [255, 255, 255]
        : colour.match(/\d+/g)!.map(Number);
      const [r, g, b] = parts.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
    };
    for (let value = -1; value <= 1; value += 0.05) {
      const lights = [luminance(shade(value, 1, dark)), luminance(inkOn(value, 1, dark))].sort((a, b) => b - a);
      expect((lights[0]! + 0.05) / (lights[1]! + 0.05)).toBeGreaterThan(4.5);
    }
  });
});

describe("lines over layers", () => {
  const frame = { width: 100, height: 50, left: 10, right: 10, top: 5, bottom: 5 };

  test("reach from edge to edge and are broken where a value is missing", () => {
    expect(across(frame, 0, 3)).toBe(10);
    expect(across(frame, 2, 3)).toBe(90);
    expect(across(frame, 0, 1)).toBe(50);
    expect(down(frame, 1, [0, 1])).toBe(5);
    expect(down(frame, 0, [0, 1])).toBe(45);
    expect(pathOf([0, 1, null, 1], frame, [0, 1])).toBe("M10.0 45.0L36.7 5.0M90.0 5.0");
  });

  test("have a domain around their values, within bounds", () => {
    const series = [{ name: "x", colour: "#000000", values: [0.5, null, 0.99] }];
    const [low, high] = domainOf(series, [-1, 1]);
    expect(low).toBeLessThan(0.5);
    expect(high).toBe(1);
    expect(domainOf([], [-1, 1])).toEqual([-1, 1]);
    const flat = domainOf([{ name: "x", colour: "#000000", values: [90, 90.0001] }], [0, 180], 10);
    expect(flat[1] - flat[0]).toBeCloseTo(10, 3);
  });

  test("have names that do not overlap and stay in their frame", () => {
    const places = spread([10, 11, 12, 40], 8, 5, 45);
    const sorted = [...places].sort((a, b) => a - b);
    sorted.slice(1).forEach((place, i) => {
      expect(place - sorted[i]!).toBeGreaterThanOrEqual(8);
    });
    expect(Math.max(...places)).toBeLessThanOrEqual(45);
    expect(places.indexOf(Math.min(...places))).toBe(0);
  });

  test("have three to eleven round ticks within their domain", () => {
    for (const domain of [
      [0, 1],
      [-0.13, 0.4],
      [3, 97],
      [0, 1e-3],
    ] as const) {
      const found = ticks(domain);
      expect(found.length).toBeGreaterThanOrEqual(3);
      expect(found.length).toBeLessThanOrEqual(11);
      expect(Math.min(...found)).toBeGreaterThanOrEqual(domain[0]);
      expect(Math.max(...found)).toBeLessThanOrEqual(domain[1] + 1e-9);
    }
  });
});

test("of two classes each keeps its colour, whichever the answer is", () => {
  const data = { class: 1, other: 0, difference: 1, rest: 0, labels: ["negative", "positive"] };
  expect([isTurned(data), isTurned({ ...data, class: 0, other: 1 })]).toEqual([true, false]);
  expect(isTurned({ ...data, labels: ["negative", "positive", "neutral"] })).toBe(false);
});
