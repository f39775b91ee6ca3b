import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type CorpusData, EVERYTHING, PAGE } from "../src/corpus/asked";
import { Pages } from "../src/corpus/pages";
import type { Host, RequestOptions } from "../src/hosts/host";
import { Cancelled, ReplyError } from "../src/protocol";

interface Asked {
  offset: number;
  signal: AbortSignal | undefined;
  answer: (data: Partial<CorpusData>) => void;
  fail: (error: Error) => void;
}

let asked: Asked[];
let host: Host;

function rows(offset: number, count = PAGE): CorpusData["rows"] {
  const row = { text: "", label: null, predicted: null, probability: null, angle: null };
  return Array.from({ length: count }, (_, i) => ({ ...row, number: offset + i, id: String(offset + i) }));
}

beforeEach(() => {
  asked = [];
  host = {
    kind: "page",
    live: true,
    request: (_verb: string, params: { offset: number }, options: RequestOptions = {}) =>
      new Promise((resolve, reject) => {
        options.signal?.addEventListener("abort", () => reject(new Cancelled()));
        asked.push({
          offset: params.offset,
          signal: options.signal,
          answer: (data) => resolve({ data: { total: 5000, rows: rows(params.offset), ...data }, arrays: {} }),
          fail: reject,
        });
      }),
  } as unknown as Host;
});

afterEach(() => {
  vi.useRealTimers();
});

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

describe("pages", () => {
  test("are asked for once, and give their rows by their place in the list", async () => {
    const pages = new Pages(host, EVERYTHING, 0, () => {});
    pages.want([0, 1]);
    pages.want([0, 1]);
    expect(asked.map(({ offset }) => offset)).toEqual([0, PAGE]);
    expect(pages.row(PAGE + 3)).toBeNull();
    asked[1]!.answer({});
    await settled();
    expect(pages.row(PAGE + 3)?.number).toBe(PAGE + 3);
    expect(pages.total).toBe(5000);
    pages.want([1]);
    expect(asked).toHaveLength(2);
  });

  test("that are scrolled past are taken back, and asked for again when they are seen", async () => {
    const pages = new Pages(host, EVERYTHING, 0, () => {});
    pages.want([0]);
    pages.want([7]);
    expect(asked[0]!.signal!.aborted).toBe(true);
    await settled();
    expect(pages.error).toBeNull();
    pages.want([0]);
    expect(asked.map(({ offset }) => offset)).toEqual([0, 7 * PAGE, 0]);
  });

  test("are kept up to a number, those in sight always", async () => {
    const pages = new Pages(host, EVERYTHING, 0, () => {});
    for (let number = 0; number < 40; number++) {
      pages.want([number]);
      asked.at(-1)!.answer({});
      await settled();
    }
    expect(pages.row(39 * PAGE)?.number).toBe(39 * PAGE);
    expect(pages.row(0)).toBeNull();
  });

  test("say why there are none, until there are", async () => {
    const changed = vi.fn();
    const pages = new Pages(host, EVERYTHING, 0, changed);
    pages.want([0]);
    asked[0]!.fail(new ReplyError("no texts are open"));
    await settled();
    expect([pages.error, changed.mock.calls.length]).toEqual(["no texts are open", 1]);
    pages.want([0]);
    asked[1]!.answer({});
    await settled();
    expect(pages.error).toBeNull();
  });

  test("are asked again while the library still learns of its texts, and not after", async () => {
    vi.useFakeTimers();
    const pages = new Pages(host, EVERYTHING, 0, () => {});
    pages.want([0]);
    asked[0]!.answer({ total: 10, filling: { doing: "reading texts", done: 10, of: 20 } });
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toHaveLength(2);
    expect(pages.total).toBe(10);
    asked[1]!.answer({ total: 20, filling: null });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(2);
    expect(pages.total).toBe(20);
  });

  test("that came to an end ask and say nothing more", async () => {
    vi.useFakeTimers();
    const changed = vi.fn();
    const pages = new Pages(host, EVERYTHING, 0, changed);
    pages.want([0]);
    asked[0]!.answer({ filling: { doing: "x", done: 1, of: 2 } });
    await vi.advanceTimersByTimeAsync(0);
    pages.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  test("of a page on disk end with the rows that it has", async () => {
    const pages = new Pages({ ...host, live: false }, EVERYTHING, 0, () => {});
    pages.want([0]);
    asked[0]!.answer({ rows: rows(0, 40) });
    await settled();
    expect(pages.total).toBe(40);
  });
});
