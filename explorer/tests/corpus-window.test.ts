import { describe, expect, test } from "vitest";
import { asked, EVERYTHING, nameOf, narrows, PAGE } from "../src/corpus/asked";
import { corpusAnswers } from "../src/corpus/mock";
import { afterKey, pagesOf, scrollTo, windowOf } from "../src/corpus/window";

const ROW = 66;
const TOTAL = 50_000;

describe("the window of a long list", () => {
  test("holds every row in sight, wherever it is scrolled to, and few others", () => {
    for (let scrolled = 0; scrolled < TOTAL * ROW; scrolled += 99_991) {
      const { from, to } = windowOf(scrolled, 420, ROW, TOTAL);
      expect(from * ROW).toBeLessThanOrEqual(scrolled);
      expect(Math.min(to * ROW, TOTAL * ROW)).toBeGreaterThanOrEqual(Math.min(scrolled + 420, TOTAL * ROW));
      expect(to - from).toBeLessThanOrEqual(Math.ceil(420 / ROW) + 1 + 2 * 6);
      expect(from).toBeGreaterThanOrEqual(0);
      expect(to).toBeLessThanOrEqual(TOTAL);
    }
  });

  test("is empty for an empty list, and whole for a short one", () => {
    expect(windowOf(0, 420, ROW, 0)).toEqual({ from: 0, to: 0 });
    expect(windowOf(0, 420, ROW, 3)).toEqual({ from: 0, to: 3 });
    expect(windowOf(1e9, 420, ROW, 3)).toEqual({ from: 3, to: 3 });
    expect(windowOf(-50, 420, ROW, 3)).toEqual({ from: 0, to: 3 });
  });

  test("asks for the pages that hold its rows, no other", () => {
    expect(pagesOf({ from: 0, to: 20 }, 200)).toEqual([0]);
    expect(pagesOf({ from: 190, to: 210 }, 200)).toEqual([0, 1]);
    expect(pagesOf({ from: 200, to: 201 }, 200)).toEqual([1]);
    expect(pagesOf({ from: 199, to: 200 }, 200)).toEqual([0]);
    expect(pagesOf({ from: 5, to: 5 }, 200)).toEqual([]);
  });

  test("scrolls no farther than a row needs to be in sight", () => {
    expect(scrollTo(0, 300, 420, ROW)).toBe(0);
    expect(scrollTo(5, 0, 420, ROW)).toBe(0);
    expect(scrollTo(6, 0, 420, ROW)).toBe(7 * ROW - 420);
    expect(scrollTo(100, 0, 420, ROW) + 420).toBe(101 * ROW);
  });

  test("is walked by keys within the list", () => {
    expect(afterKey("ArrowDown", 4, 10, 6)).toBe(5);
    expect(afterKey("ArrowUp", 0, 10, 6)).toBe(0);
    expect(afterKey("PageDown", 7, 10, 6)).toBe(9);
    expect(afterKey("Home", 7, 10, 6)).toBe(0);
    expect(afterKey("End", 7, 10, 6)).toBe(9);
    expect(afterKey("x", 7, 10, 6)).toBeNull();
    expect(afterKey("ArrowDown", 0, 0, 6)).toBeNull();
  });
});

describe("what is asked of the corpus", () => {
  test("is a page at its offset; what takes nothing away is left out", () => {
    expect(asked(EVERYTHING, 0)).toEqual({ offset: 0, limit: PAGE });
    expect(asked({ ...EVERYTHING, query: "  " }, 3)).toEqual({ offset: 3 * PAGE, limit: PAGE });
    expect(asked({ query: " soup ", label: 0, predicted: 1, errors: true, sort: "margin" }, 1)).toEqual({
      query: "soup",
      filter: { label: 0, predicted: 1, errors: true },
      sort: "margin",
      offset: PAGE,
      limit: PAGE,
    });
  });

  test("is at most as much as the server gives", () => {
    expect(PAGE).toBeLessThanOrEqual(200);
  });

  test("narrows the corpus if any filter is set, not by its order", () => {
    expect(narrows(EVERYTHING)).toBe(false);
    expect(narrows({ ...EVERYTHING, sort: "farthest" })).toBe(false);
    expect(narrows({ ...EVERYTHING, label: 0 })).toBe(true);
    expect(narrows({ ...EVERYTHING, errors: true })).toBe(true);
    expect(narrows({ ...EVERYTHING, query: "x" })).toBe(true);
  });
});

test("a class has its name, its number where there is no name, and a dash where it is not known", () => {
  expect([nameOf(["a"], 0), nameOf(["a"], 4), nameOf([], null)]).toEqual(["a", "4", "–"]);
});

test("the made-up corpus answers pages of any place", () => {
  const answer = corpusAnswers(500).corpus!;
  const reply = answer(asked(EVERYTHING, 2) as never, null as never).data as {
    total: number;
    rows: { number: number }[];
  };
  expect(reply.total).toBe(500);
  expect(reply.rows.map(({ number }) => number)).toEqual(Array.from({ length: 100 }, (_, i) => 400 + i));
});
