import { describe, expect, test } from "vitest";
import { at, DIVERGING, inkOn, LIGHT, MISSING, rgbOf, SEQUENTIAL, wordColour } from "../src/draw/colour";
import { csvOf } from "../src/draw/csv";
import { curvePicture, deletionLines, placeOf } from "../src/draw/curve";
import { mapMinus, minus, tensorMinus, whyNot, whyNotHeads } from "../src/draw/difference";
import { gatesOf, kindsIn, THRESHOLDS } from "../src/draw/gates";
import { cornerOf, gridLayout, shortFigure, thumbAt, valueAt } from "../src/draw/heads";
import { withScale } from "../src/draw/legend";
import { DENSE, linksLayout, linksPicture, linksShown, MOST, rowAt } from "../src/draw/links";
import {
  cellAt,
  evenShare,
  LOOKS,
  linksOf,
  looksOf,
  mapIn,
  matrixLayout,
  matrixPicture,
  matrixPixels,
  pixelsOf,
  pooled,
  sentenceOf,
  strongest,
} from "../src/draw/maps";
import { escaped, SvgPaint, svgOf } from "../src/draw/paint";
import { evenScale, largest, rootScale, scaleFor, signedScale } from "../src/draw/scale";
import { figure, percent, visible, wordsIn } from "../src/draw/text";
import { flow, mostOf, wordsPicture } from "../src/draw/wordsPicture";
import { tensor } from "../src/mock";
import { shownWords } from "../src/panels/Coloured";
import type { ModelInfo, RunData } from "../src/protocol";

const TOKENS = ["[CLS]", "a", "b", "[SEP]"].map((text, i) => ({
  text,
  kind: i === 0 ? "cls" : i === 3 ? "sep" : "other",
  word: i === 0 || i === 3 ? null : i - 1,
}));

describe("texts", () => {
  test("characters that hide or turn around are marks", () => {
    expect(visible("a\u202eb\u200bc\u0000d\ne")).toBe("a⟨202E⟩b⟨200B⟩c␀d␊e");
    expect(visible("\u{e0041}\ud800")).toBe("⟨E0041⟩⟨D800⟩");
  });

  test("what people write stays as it is", () => {
    for (const text of ["naïve", "שלום", "日本語", "❤️", "don't", "50 %"]) expect(visible(text)).toBe(text);
  });

  test("a long word is cut between characters", () => {
    expect(visible("x".repeat(100_000), 10)).toBe(`${"x".repeat(9)}…`);
    expect([...visible("😀".repeat(30), 10)]).toHaveLength(10);
    expect(visible("exactly ten", 11)).toBe("exactly ten");
  });

  test("words are counted over text and pair", () => {
    expect(wordsIn("  a\tb\n", "c")).toEqual(["a", "b", "c"]);
    expect(wordsIn("")).toEqual([]);
  });

  test("numbers have three digits that matter", () => {
    expect(figure(0.9998)).toBe("1.00");
    expect([0, 0.12345, -1.2345, 45.67, 1234, 1e-7, Number.NaN, null].map(figure)).toEqual([
      "0",
      "0.123",
      "−1.23",
      "45.7",
      "1234",
      "1.0e−7",
      "–",
      "–",
    ]);
    expect([percent(0.5), percent(1), percent(0)]).toEqual(["50.0 %", "100 %", "0 %"]);
    expect(shortFigure(-0.123)).toBe("−.123");
  });
});

describe("colours", () => {
  test("scales end in the colours of the figures", () => {
    expect(at(SEQUENTIAL, 0)).toEqual(rgbOf("#440154"));
    expect(at(SEQUENTIAL, 1)).toEqual(rgbOf("#fde725"));
    expect(at(DIVERGING, 0)).toEqual(rgbOf("#134b85"));
  });

  test("what is no number has no colour of the scale", () => {
    for (const scale of [rootScale(1), evenScale(1), signedScale(1), rootScale(0)]) {
      expect(scale.rgb(Number.NaN)).toEqual(MISSING);
    }
  });

  test("a scale of nothing but zeros has a colour for zero", () => {
    expect(rootScale(0).rgb(0)).toEqual(at(SEQUENTIAL, 0));
    expect(signedScale(0).rgb(0)).toEqual(at(DIVERGING, 0.5));
  });

  test("numbers below zero make a scale around zero", () => {
    expect(scaleFor([0.5, -2, Number.NaN], false, true)).toMatchObject({ most: 2, signed: true });
    expect(scaleFor([0.5, 2], false, true)).toMatchObject({ most: 2, signed: false });
    expect(largest([Number.NaN, Infinity, -3])).toBe(3);
  });

  test("text on every colour has the contrast of WCAG AA", () => {
    const light = (hex: string) => {
      const [r, g, b] = rgbOf(hex).map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
    };
    const hex = (rgb: readonly number[]) => `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
    for (const table of [SEQUENTIAL, DIVERGING]) {
      for (let i = 0; i <= 255; i++) {
        const ground = at(table, i / 255);
        const [one, other] = [light(hex(ground)), light(inkOn(ground))];
        expect((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)).toBeGreaterThan(4.5);
      }
    }
  });

  test("a word without a score is on paper", () => {
    expect(wordColour(Number.NaN, LIGHT)).toEqual(rgbOf(LIGHT.paper));
    expect(wordColour(0, LIGHT)).toEqual(rgbOf(LIGHT.paper));
    expect(wordColour(1, LIGHT)).not.toEqual(wordColour(-1, LIGHT));
  });
});

describe("maps", () => {
  test("a head's map is its part of the array, not a copy", () => {
    const all = tensor([2, 3, 2, 2], (i) => i);
    expect([...mapIn(all, 2, 3)!.values]).toEqual([20, 21, 22, 23]);
    expect(mapIn(all, 2, 3)!.values.buffer).toBe(all.values.buffer);
    expect([mapIn(all, 3, 1), mapIn(all, 0, 1), mapIn(all, 1, 4), mapIn(undefined, 1, 1)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
  });

  test("the map of a layer is that of each of its heads", () => {
    const all = tensor([2, 2, 2], (i) => i);
    expect([...mapIn(all, 2, 7)!.values]).toEqual([4, 5, 6, 7]);
  });

  test("links are the strongest, weakest first", () => {
    const map = { size: 2, values: new Float32Array([0.1, -0.9, 0, 0.5]) };
    expect(linksOf(map, 0, 9).map(({ from, to }) => [from, to])).toEqual([
      [0, 0],
      [1, 1],
      [0, 1],
    ]);
    expect(linksOf(map, 0.3, 1)).toHaveLength(1);
  });

  test("a map of 512 tokens draws no more links than the most", () => {
    const map = { size: 512, values: new Float32Array(512 * 512).fill(1 / 512) };
    let drawn = 0;
    const paint = new SvgPaint();
    paint.link = () => {
      drawn += 1;
    };
    const options = { theme: LIGHT, focus: null, most: 1, special: [], signed: false };
    const layout = linksLayout(512, 400);
    const links = linksShown(map, 0);
    linksPicture(map, links, [], layout, options).draw(paint);
    expect([map.size > DENSE, drawn]).toEqual([true, MOST]);
    const whole = drawn;
    linksPicture(map, links, [], layout, options, { top: 3000, height: 600 }).draw(paint);
    expect(drawn - whole).toBeLessThan(whole);
  });

  test("what a head looks at is a share of all its weight", () => {
    const size = 4;
    const values = new Float32Array(size * size);
    for (let i = 0; i < size; i++) values[i * size + Math.max(0, i - 1)] = 1;
    const looks = looksOf({ size, values }, TOKENS);
    expect(looks).toMatchObject({ previous: 0.75, next: 0, itself: 0.25, first: 0.5, special: 0.5 });
    expect(sentenceOf({ size, values }, TOKENS)).toBe(
      "75 % of its weight goes to the token before, 25 % to the token itself.",
    );
  });

  test("the sentence names the token that gets most, whatever stands beside the diagonal", () => {
    const size = 4;
    const row = [0.03, 0.02, 0.93, 0.02];
    const map = { size, values: new Float32Array(Array.from({ length: size }, () => row).flat()) };
    expect(sentenceOf(map, TOKENS)).toBe("93 % of its weight goes to “b” (token 3), 2 % to the token itself.");
  });

  test("the shares of the sentence count no weight twice", () => {
    const size = 4;
    const values = new Float32Array(size * size);
    for (let i = 0; i < size; i++) values[i * size + Math.max(0, i - 1)] = 1;
    const shares = [...sentenceOf({ size, values }, TOKENS).matchAll(/(\d+) %/g)].map(([, share]) => Number(share));
    expect(shares.reduce((sum, share) => sum + share)).toBe(100);
  });

  test("weight is called spread only where no token gets much of another", () => {
    const size = 12;
    const tokens = Array.from({ length: size }, (_, i) => ({ text: `t${i}`, kind: "other", word: i }));
    const even = { size, values: new Float32Array(size * size).fill(1 / size) };
    expect(sentenceOf(even, tokens)).toMatch(/^Its weight is spread: a token's largest link has 8 % of its weight/);
    const apart = new Float32Array(size * size);
    for (let i = 0; i < size; i++) apart[i * size + ((i + 6) % size)] = 1;
    expect(sentenceOf({ size, values: apart }, tokens)).toMatch(
      /^Each token looks elsewhere: a token's largest link has 100 % .* of all weight 8 % goes to/,
    );
  });

  test("the share of looking at all alike is that of an even map", () => {
    const even = { size: 4, values: new Float32Array(16).fill(0.25) };
    const looks = looksOf(even, TOKENS);
    for (const look of LOOKS) expect(evenShare(look, TOKENS)).toBeCloseTo(looks[look], 12);
  });

  test("of a map without weight nothing is said", () => {
    expect(sentenceOf({ size: 1, values: new Float32Array([0]) }, TOKENS)).toBe("");
  });

  test("the strongest of a row leave out what is no number", () => {
    expect(strongest([0.1, Number.NaN, -0.7, 0.2], 2)).toEqual([2, 3]);
  });

  test("each cell of a matrix is found at its own place, and nothing outside", () => {
    for (const [size, room] of [
      [3, 300],
      [40, 600],
      [512, 460],
    ] as const) {
      const layout = matrixLayout(size, room);
      const place = (i: number, start: number) => start + (i + 0.5) * layout.cell;
      for (const i of [0, 1, size - 1]) {
        const found = cellAt(layout, place(i, layout.margin), place(size - 1 - i, layout.top));
        expect(found).toEqual({ row: size - 1 - i, column: i });
      }
      expect(cellAt(layout, layout.margin - 1, layout.top + 1)).toBeNull();
      expect(cellAt(layout, layout.margin + 1, layout.top + layout.side + 1)).toBeNull();
      expect(layout.margin + layout.side).toBeLessThanOrEqual(room);
    }
  });

  test("names stand where they can be read", () => {
    expect([matrixLayout(12, 400).names, matrixLayout(512, 460).names]).toEqual([true, false]);
  });

  test("a row of the links is found at its own place", () => {
    const layout = linksLayout(10, 400);
    expect([rowAt(layout, 5, 10), rowAt(layout, layout.height - 6, 10), rowAt(layout, 0, 10)]).toEqual([0, 9, null]);
    expect(rowAt(layout, layout.height + 50, 10)).toBeNull();
    expect(layout.left).toBeLessThan(layout.right);
  });

  test("a map with less room than cells keeps its strongest", () => {
    const values = new Float32Array(16);
    values[5] = -0.9;
    values[6] = 0.4;
    const { size, values: small } = pooled({ size: 4, values }, 2.5);
    expect([size, ...small]).toEqual([2, values[5], values[6], 0, 0]);
    expect(pooled({ size: 4, values }, 100).values).toBe(values);
  });

  test("a pixel of a map has the colour of its number", () => {
    const { columns, rows, data } = pixelsOf([0, 1], 2, evenScale(1).rgb);
    expect([columns, rows, ...data]).toEqual([2, 1, ...rgbOf("#440154"), 255, ...rgbOf("#fde725"), 255]);
  });
});

describe("the grid of heads", () => {
  test("cells of any shape lie in its picture, apart from each other", () => {
    for (const [layers, heads, room] of [
      [1, 1, 300],
      [12, 12, 760],
      [48, 25, 358],
    ] as const) {
      const layout = gridLayout(layers, heads, room);
      const [x, y] = cornerOf(layout, layers, heads);
      expect(x + layout.cell).toBeLessThanOrEqual(layout.width);
      expect(y + layout.cell).toBeLessThanOrEqual(layout.height);
      expect(cornerOf(layout, 1, 2)[0] - cornerOf(layout, 1, 1)[0]).toBeGreaterThan(layout.cell);
    }
  });

  test("twelve layers fit a low window", () => {
    expect(gridLayout(12, 12, 760, 650).height).toBeLessThanOrEqual(650);
  });

  test("a head that is not there has no number", () => {
    const values = tensor([2, 2], (i) => i);
    expect([valueAt(values, 2, 1), valueAt(values, 1, 2)]).toEqual([2, 1]);
    for (const [layer, head] of [
      [0, 1],
      [3, 1],
      [1, 3],
    ] as const) {
      expect(valueAt(values, layer, head)).toBeNaN();
    }
    expect(valueAt(undefined, 1, 1)).toBeNaN();
  });

  test("thumbnails are weights", () => {
    const thumbs = { shape: [1, 2, 1, 1], values: new Uint8Array([0, 255]) };
    expect([...thumbAt(thumbs, 1, 2)!.values]).toEqual([1]);
    expect(thumbAt(thumbs, 1, 3)).toBeNull();
  });
});

describe("gates", () => {
  const none = {
    length: 20,
    peak: 0.5,
    special: 0,
    entropy: 0.5,
    spread: 9,
    column: 0,
    columns: 0,
    apart: 1,
    cluster: 0,
  };
  const scores = { ...none, cluster_beyond: 0, forward: 0, backward: 0, strong: 0, has_strong: 0, shared: 1 };

  test.each([
    [{}, []],
    [{ special: 0.7 }, ["closed"]],
    [{ special: 0.7, entropy: 0.9, spread: 2 }, ["closed"]],
    [{ entropy: 0.9, spread: 2 }, ["open"]],
    [{ column: 0.6, apart: 0.1 }, ["directional"]],
    [{ forward: 0.6 }, ["forward contextual"]],
    [{ forward: 0.3, backward: 0.3 }, ["forward contextual", "backward contextual"]],
    [{ forward: 0.3, backward: 0.3, cluster: 0.4, cluster_beyond: 0.2 }, ["cluster"]],
    [{ has_strong: 1, strong: 0.05, shared: 0 }, ["instance"]],
    [{ entropy: 0.8 - 1e-8, spread: 5 }, ["open"]],
  ])("%j are %j", (more, gates) => {
    expect(gatesOf({ ...scores, ...more }, {})).toEqual(gates);
  });

  test("a threshold that is moved names the head anew", () => {
    expect(gatesOf({ ...scores, entropy: 0.75, spread: 2 }, { open_entropy: 0.7 })).toEqual(["open"]);
  });

  test("each threshold begins within its slider", () => {
    for (const { initial, low, high } of THRESHOLDS) expect(initial >= low && initial <= high).toBe(true);
  });

  test("kinds are read from names, and nothing else", () => {
    expect(kindsIn("open + instance")).toEqual(["open", "instance"]);
    expect([kindsIn("mixed"), kindsIn(null), kindsIn("constructor")]).toEqual([[], [], []]);
  });
});

describe("differences", () => {
  const run = (count: number) => ({ tokens: Array.from({ length: count }, () => TOKENS[1]!) }) as RunData;
  const model = (layers: number, heads: number) => ({ layers, heads: Array<number>(layers).fill(heads) }) as ModelInfo;

  test("B minus A is a number for each number", () => {
    expect([...minus([3, 1], [1, 4])!]).toEqual([2, -3]);
    expect(minus([1], [1, 2])).toBeNull();
    expect([
      ...mapMinus({ size: 1, values: new Float32Array([3]) }, { size: 1, values: new Float32Array([1]) })!.values,
    ]).toEqual([2]);
    expect(
      tensorMinus(
        tensor([2, 1], () => 1),
        tensor([1, 2], () => 1),
      ),
    ).toBeUndefined();
    expect(
      tensorMinus(
        tensor([1], () => 3),
        tensor([1], () => 1),
      )?.values[0],
    ).toBe(2);
  });

  test("texts with other numbers of tokens say both", () => {
    expect(whyNot(run(4), run(4))).toBeNull();
    expect(whyNot(run(4), run(5))).toMatch(/A has 4, B has 5/);
  });

  test("models of other shapes say both", () => {
    expect(whyNotHeads(model(2, 4), model(2, 4))).toBeNull();
    expect(whyNotHeads(model(2, 4), model(3, 4))).toMatch(/2 layers of 4 heads, B has 3 layers of 4 heads/);
  });
});

describe("files", () => {
  test("an SVG holds a hostile text as text", () => {
    const map = { size: 1, values: new Float32Array([1]) };
    const name = '</text><script>alert("x")</script>\u0000';
    const layout = matrixLayout(1, 200);
    const pixels = matrixPixels(map, evenScale(1), layout);
    const picture = matrixPicture(pixels, [name], layout, LIGHT, { row: null, column: null });
    const file = svgOf(picture, LIGHT.paper);
    expect(file).not.toContain("<script");
    expect(new DOMParser().parseFromString(file, "image/svg+xml").querySelectorAll("text").length).toBe(2);
    expect(escaped(`<&>"'\u0001`)).toBe("&lt;&amp;&gt;&quot;&#39;");
  });

  test("a picture that is saved has its scale below, and nothing beside its edges", () => {
    const inner = { width: 100, height: 50, draw: () => {} };
    const file = withScale(inner, signedScale(0.25), "difference", LIGHT);
    expect([file.height > inner.height, svgOf(file, "#fff").includes("−0.250")]).toEqual([true, true]);
    const ends: number[] = [];
    const paint = new SvgPaint();
    paint.rect = (x, y, width, height) => ends.push(x + width - file.width, y + height - file.height);
    file.draw(paint);
    expect(Math.max(...ends)).toBeLessThanOrEqual(0);
  });

  test("equal neighbours of an image are one rectangle", () => {
    const paint = new SvgPaint();
    paint.image(0, 0, 10, 10, pixelsOf(new Float32Array(100), 10, evenScale(1).rgb));
    expect(paint.file(10, 10, "#fff").match(/<rect/g)).toHaveLength(1 + 10);
  });

  test("a CSV runs nothing and keeps its columns", () => {
    expect(csvOf(["a", "b"], [["=1+1", 'say "x", y']])).toBe('a,b\r\n\'=1+1,"say ""x"", y"\r\n');
    expect(csvOf(["n"], [[Number.NaN], [-1.5], [null]])).toBe("n\r\n\r\n-1.5\r\n\r\n");
  });

  test("words flow in lines that fit", () => {
    const { placed, lines } = flow(
      Array.from({ length: 40 }, () => "word"),
      200,
    );
    expect(lines).toBeGreaterThan(3);
    for (const { x, width } of placed) expect(x + width).toBeLessThanOrEqual(200);
    expect(mostOf([1, -3, Number.NaN])).toBe(3);
    const one = wordsPicture(["a"], [{ method: "m", scores: [1] }], 300, LIGHT);
    expect(svgOf(one, LIGHT.paper)).toContain(">m<");
  });

  test("a deletion curve lies within its axes", () => {
    const axes = { left: 10, top: 0, right: 110, bottom: 50 };
    expect([placeOf(axes, 0, 4, 1), placeOf(axes, 4, 4, 0)]).toEqual([
      [10, 0],
      [110, 50],
    ]);
    const lines = deletionLines([1, 0.5], undefined, "by attention");
    expect(lines).toHaveLength(1);
    expect(svgOf(curvePicture(lines, 300, 150, LIGHT, 1), "#fff")).toContain("words erased");
  });
});

test("of a long text the words that are read or changed are shown, of a short one all", () => {
  const scores = Float32Array.from({ length: 900 }, (_, i) => (i < 600 ? 1 : Number.NaN));
  expect(shownWords(10, 512, null, {})).toBe(10);
  expect(shownWords(900, 512, null, {})).toBe(512);
  expect(shownWords(900, 512, scores, {})).toBe(600);
  expect(shownWords(900, 512, scores, { erase: [3, 700] })).toBe(701);
  expect(shownWords(900, 512, scores, { replace: { "650": "good" } })).toBe(651);
});
