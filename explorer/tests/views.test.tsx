import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { conesAnswers, MADE } from "../src/cones/mock";
import { corpusAnswers } from "../src/corpus/mock";
import { ANSWERS, HELLO, MockHost } from "../src/mock";
import { mount } from "../src/mount";
import type { Hello } from "../src/protocol";
import { streamAnswers } from "../src/stream/mock";

const HOSTILE = "<img src=x onerror=alert(1)>";
const measured = { name: "out", model: 0, corpus: "made-up", tables: ["class_cones"] };
const GREETING: Hello = { ...HELLO, results: [measured, { ...measured, name: "before", model: 1 }] };

let unmount = () => {};

beforeEach(() => {
  history.replaceState(null, "", "/");
});

afterEach(() => {
  unmount();
  document.body.replaceChildren();
});

/** The page at an address, with made-up answers. */
async function at(fragment: string, greeting: Hello = GREETING, classes = MADE.classes): Promise<HTMLElement> {
  history.replaceState(null, "", `/#${fragment}`);
  const root = document.createElement("div");
  document.body.append(root);
  const own = { ...conesAnswers({ ...MADE, points: 40, classes }), ...streamAnswers, ...corpusAnswers(5000) };
  unmount = mount(root, new MockHost(greeting, 0, { ...ANSWERS, ...own }), { address: true });
  await vi.waitFor(() => expect(root.querySelector(".tabs")).not.toBeNull());
  return root;
}

const textOf = (root: HTMLElement, selector: string) => root.querySelector(selector)?.textContent ?? "";

describe("the cones", () => {
  test("have their true angles and a warning beside them, even where nothing can be drawn", async () => {
    const root = await at("tab=cones&text=warm bread&coneLayer=4");
    await vi.waitFor(() => expect(textOf(root, ".beside")).toContain("Text A"));
    expect(textOf(root, ".explained")).toContain("Projections lie");
    expect(textOf(root, ".explained")).toContain("56.0 %");
    expect(textOf(root, ".beside table")).toContain("70.8°");
    expect(textOf(root, ".sphere")).toContain("without WebGL");
  });

  test("of two results are subtracted, with a sentence on whether the classes parted", async () => {
    const root = await at("tab=cones&text=warm bread&coneLayer=4&resultB=1&show=diff");
    await vi.waitFor(() => expect(textOf(root, ".beside")).toContain("closer in B"));
    expect(root.querySelectorAll(".sphere-box")).toHaveLength(2);
    expect(textOf(root, ".beside")).toMatch(
      /is 70\.8° in A and \d+\.\d° in B, on average: they are \d+\.\d° closer in B/,
    );
  });

  test("say what to do where nothing was measured", async () => {
    const root = await at("tab=cones", { ...GREETING, results: [] });
    await vi.waitFor(() => expect(textOf(root, "[role=tabpanel]")).toContain("conoscope measure"));
  });

  test("follow the layer that a key chooses", async () => {
    const root = await at("tab=cones&text=warm bread");
    await vi.waitFor(() => expect(textOf(root, ".cones-controls output")).toBe("6"));
    root.querySelector(".tabs")!.dispatchEvent(new KeyboardEvent("keydown", { key: "}", bubbles: true }));
    await vi.waitFor(() => expect(textOf(root, ".cones-controls output")).toBe("2"));
  });

  test("show names of classes as text", async () => {
    const root = await at("tab=cones&text=warm bread", GREETING, [HOSTILE, "fair", "\u202egood"]);
    await vi.waitFor(() => expect(textOf(root, ".beside table")).toContain("<img src=x"));
    expect(root.querySelector("img")).toBeNull();
    expect(textOf(root, ".cones-controls")).not.toContain("\u202e");
  });
});

describe("the stream", () => {
  test("ends in the total that it names, with its rest", async () => {
    const root = await at("tab=stream&text=the soup was not good");
    await vi.waitFor(() => expect(root.querySelector(".waterfall .total")).not.toBeNull());
    const total = textOf(root, ".waterfall .total .number");
    expect(textOf(root, ".stream-lead")).toContain(total);
    expect(textOf(root, ".waterfall .rest .so-far")).toBe(total);
    expect(textOf(root, ".stream-lead")).toContain(textOf(root, ".waterfall .rest .number"));
    expect(root.querySelector(".waterfall .failure")).toBeNull();
  });

  test("selects the head that is clicked, in all views", async () => {
    const root = await at("tab=stream&text=the soup was not good");
    await vi.waitFor(() => expect(root.querySelector(".head-map .cell")).not.toBeNull());
    root.querySelector<HTMLElement>('[data-at="3-2"]')!.click();
    await vi.waitFor(() => expect(location.hash).toContain("layer=3&head=2"));
    expect(root.querySelectorAll('.head-map .cell[tabindex="0"]')).toHaveLength(1);
  });

  test("says why an answer cannot be split", async () => {
    const root = await at("tab=stream&text=the soup&model=2");
    await vi.waitFor(() => expect(textOf(root, "[role=tabpanel]")).toContain("cannot be split"));
    expect(textOf(root, "[role=tabpanel]")).toContain(HELLO.models[2]!.name);
  });

  test("of B minus A sums to the difference of both totals", async () => {
    const root = await at("tab=stream&text=the soup was not good&other=warm bread&show=diff");
    await vi.waitFor(() => expect(root.querySelector(".waterfall .total")).not.toBeNull());
    expect(textOf(root, ".waterfall .rest .so-far")).toBe(textOf(root, ".waterfall .total .number"));
  });
});

describe("the list of the corpus", () => {
  test("has few of its rows in the document, and all in its numbering", async () => {
    const root = await at("tab=stream&text=x");
    await vi.waitFor(() => expect(root.querySelectorAll(".corpus-scroll .row-text").length).toBeGreaterThan(3));
    expect(root.querySelectorAll(".corpus-scroll li").length).toBeLessThan(40);
    expect(root.querySelector(".corpus-scroll li")!.getAttribute("aria-setsize")).toBe("5000");
    expect(root.querySelectorAll('.corpus-scroll .text[tabindex="0"]')).toHaveLength(1);
  });

  test("shows hostile texts as text", async () => {
    const root = await at("tab=stream&text=x");
    await vi.waitFor(() => expect(textOf(root, ".corpus-scroll")).toContain(HOSTILE));
    expect(root.querySelector("img, script")).toBeNull();
  });

  test("makes a row the text A, and by its button the text B", async () => {
    const root = await at("tab=stream&text=x");
    await vi.waitFor(() => expect(root.querySelector(".corpus-scroll .row-text")).not.toBeNull());
    const text = textOf(root, ".corpus-scroll .row-text");
    root.querySelector<HTMLElement>(".corpus-scroll .text")!.click();
    await vi.waitFor(() => expect(location.hash).toContain(`text=${encodeURIComponent(text)}`));
    root.querySelector<HTMLElement>(".corpus-scroll .as-b")!.click();
    await vi.waitFor(() => expect(location.hash).toContain(`other=${encodeURIComponent(text)}`));
  });

  test("asks for errors alone when only they are wanted", async () => {
    const root = await at("tab=stream&text=x");
    await vi.waitFor(() => expect(root.querySelector(".corpus-scroll .row-text")).not.toBeNull());
    const box = root.querySelector<HTMLInputElement>('.corpus-filters input[type="checkbox"]')!;
    box.click();
    await vi.waitFor(() => expect(textOf(root, ".corpus [role=status]")).toContain("found"));
    await vi.waitFor(() => expect(root.querySelectorAll(".row-facts").length).toBeGreaterThan(2));
    const facts = [...root.querySelectorAll(".row-facts")].map(({ textContent }) => textContent);
    expect(facts.every((line) => line?.includes("✕"))).toBe(true);
  });
});
