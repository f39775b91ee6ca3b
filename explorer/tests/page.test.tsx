import { afterEach, expect, test, vi } from "vitest";
import { HELLO, MockHost } from "../src/mock";
import { mount } from "../src/mount";
import { tabAfter } from "../src/panels/Tabs";
import type { Hello } from "../src/protocol";
import { rowAfter } from "../src/views/HeadLinks";
import { cellAfter } from "../src/views/HeadMatrix";
import { headAfter } from "../src/views/HeadsGrid";
import { stepAt } from "../src/views/Words";

let unmount = () => {};

/** The page of a made-up host, once it has run its first text. */
async function opened(hello: Hello = HELLO): Promise<{ root: HTMLElement; host: MockHost }> {
  const root = document.createElement("div");
  document.body.append(root);
  const host = new MockHost(hello, 0);
  unmount = mount(root, host);
  await vi.waitFor(() => expect(root.querySelector(".tabs")).not.toBeNull());
  return { root, host };
}

afterEach(() => {
  unmount();
  document.body.replaceChildren();
});

function button(root: HTMLElement, name: string): HTMLElement {
  return [...root.querySelectorAll("button")].find(({ textContent }) => textContent?.trim() === name)!;
}

test("a page that waits for its model says so", () => {
  const root = document.createElement("div");
  unmount = mount(root, new MockHost(HELLO, 10_000));
  expect(root.textContent).toContain("Opening the model");
});

test("a library that does not answer is an error with a way out", async () => {
  const root = document.createElement("div");
  unmount = mount(root, new MockHost(HELLO, 0, {}));
  await vi.waitFor(() => expect(root.querySelector("[role=alert]")?.textContent).toContain("This model has no hello"));
  expect(root.querySelector("button")?.textContent).toBe("Try again");
});

test("tabs are walked with arrows, and one of them alone is in the order of Tab", async () => {
  const { root } = await opened();
  const tabs = () => [...root.querySelectorAll<HTMLElement>("[role=tab]")];
  tabs()[0]!.focus();
  tabs()[0]!.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  await vi.waitFor(() =>
    expect(tabs().map((tab) => tab.ariaSelected ?? tab.getAttribute("aria-selected"))[1]).toBe("true"),
  );
  expect(tabs().map((tab) => tab.tabIndex)).toEqual([-1, 0, -1, -1, -1]);
  expect(document.activeElement).toBe(tabs()[1]);
});

test("of the tokens one alone is in the order of Tab, and arrows go to the others", async () => {
  const { root } = await opened();
  await vi.waitFor(() => expect(root.querySelectorAll(".chips .chip").length).toBeGreaterThan(3));
  const chips = [...root.querySelectorAll<HTMLElement>(".chips .chip")];
  expect(chips.map(({ tabIndex }) => tabIndex)).toEqual(chips.map((_, i) => (i ? -1 : 0)));
  const press = (key: string) =>
    document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  chips[0]!.focus();
  for (const [key, place] of [
    ["ArrowRight", 1],
    ["End", chips.length - 1],
    ["ArrowRight", chips.length - 1],
    ["Home", 0],
  ] as const) {
    press(key);
    expect(document.activeElement).toBe(chips[place]);
  }
});

test("keys go around the ends of tabs, and stop at those of rows and grids", () => {
  expect([tabAfter("ArrowLeft", "head"), tabAfter("ArrowRight", "stream"), tabAfter("a", "head")]).toEqual([
    "stream",
    "head",
    undefined,
  ]);
  expect([rowAfter("ArrowUp", 0, 5), rowAfter("End", 0, 5), rowAfter("PageDown", 0, 5), rowAfter("x", 0, 5)]).toEqual([
    0,
    4,
    4,
    null,
  ]);
  expect(cellAfter("ArrowLeft", { row: 1, column: 0 }, 3)).toEqual({ row: 1, column: 0 });
  const shape = { layers: 2, heads: [4, 2] };
  expect(headAfter("ArrowDown", 1, 4, shape)).toEqual([2, 2]);
  expect(headAfter("End", 1, 1, shape)).toEqual([1, 4]);
  expect(headAfter("ArrowUp", 1, 1, shape)).toEqual([1, 1]);
  expect([stepAt(0, 500, 9), stepAt(488, 500, 9), stepAt(9999, 500, 9)]).toEqual([0, 9, 9]);
});

test("typing runs the text a little after the last key, once", async () => {
  const { root, host } = await opened();
  await vi.waitFor(() => expect(root.querySelector(".bars")).not.toBeNull());
  const area = root.querySelector("textarea")!;
  for (const text of ["g", "go", "good"]) {
    area.value = text;
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const ran = () =>
    host.asked.filter(({ verb }) => verb === "run").map(({ params }) => (params as { text: string }).text);
  await vi.waitFor(() => expect(ran()).toContain("good"));
  expect(ran()).not.toContain("go");
});

test("a word that is clicked is erased, and the answer has a before and an after", async () => {
  const { root, host } = await opened();
  root.querySelector<HTMLElement>("[data-tab=words]")!.click();
  await vi.waitFor(() => expect(root.querySelectorAll("button.word").length).toBeGreaterThan(9));
  const words = [...root.querySelectorAll<HTMLElement>("button.word")];
  words[4]!.click();
  await vi.waitFor(() => expect(root.querySelector(".edits")?.textContent).toContain("“good” erased"));
  await vi.waitFor(() => expect(root.querySelector(".bars")?.textContent).toMatch(/% → /));
  const edited = host.asked.filter(({ params }) => JSON.stringify(params).includes('"erase":[4]'));
  expect(edited.map(({ verb }) => verb)).toContain("run");
  button(root, "Take all changes back").click();
  await vi.waitFor(() => expect(root.querySelector(".edits")).toBeNull());
});

test("the menu of a word replaces it, and Escape closes it and goes back to the word", async () => {
  const { root } = await opened();
  root.querySelector<HTMLElement>("[data-tab=words]")!.click();
  await vi.waitFor(() => expect(root.querySelectorAll("button.word").length).toBeGreaterThan(9));
  const word = () => root.querySelectorAll<HTMLElement>("button.word")[4]!;
  word().dispatchEvent(new MouseEvent("contextmenu", { bubbles: true, cancelable: true }));
  await vi.waitFor(() => expect(document.activeElement?.matches(".menu input")).toBe(true));
  document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  await vi.waitFor(() => expect(root.querySelector(".menu")).toBeNull());
  expect(document.activeElement).toBe(word());
  word().dispatchEvent(new MouseEvent("contextmenu", { bubbles: true, cancelable: true }));
  await vi.waitFor(() => expect(root.querySelector(".menu input")).not.toBeNull());
  const input = root.querySelector<HTMLInputElement>(".menu input")!;
  input.value = "bland";
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.waitFor(() => expect(input.value).toBe("bland"));
  root.querySelector<HTMLFormElement>(".menu")!.requestSubmit();
  await vi.waitFor(() => expect(root.querySelector(".edits")?.textContent).toContain("“good” is “bland”"));
});

test("x in the grid takes the head out, and again puts it back", async () => {
  const { root } = await opened();
  root.querySelector<HTMLElement>("[data-tab=heads]")!.click();
  await vi.waitFor(() => expect(root.querySelector('[data-head="2.3"]')).not.toBeNull());
  const head = root.querySelector<HTMLElement>('[data-head="2.3"]')!;
  head.click();
  await vi.waitFor(() => expect(head.getAttribute("aria-pressed")).toBe("true"));
  head.dispatchEvent(new KeyboardEvent("keydown", { key: "x", bubbles: true, cancelable: true }));
  await vi.waitFor(() => expect(root.querySelector(".edits")?.textContent).toContain("head 2.3 taken out"));
  head.dispatchEvent(new KeyboardEvent("keydown", { key: "x", bubbles: true, cancelable: true }));
  await vi.waitFor(() => expect(root.querySelector(".edits")).toBeNull());
});

test("names, labels and texts that are markup are text in every view", async () => {
  const bad = '<img src=x onerror="window.hurt=1">\u202e<script>window.hurt=1</script>';
  const hello: Hello = {
    ...HELLO,
    models: [{ ...HELLO.models[0]!, name: bad, labels: [bad, `${bad}2`], notes: [bad] }],
    methods: HELLO.methods.map((method) => ({ ...method, about: bad })),
    results: [{ name: bad, model: 0, corpus: bad, tables: [bad] }],
    texts: [bad],
    paths: [bad],
  };
  const { root } = await opened(hello);
  for (const tab of ["head", "words", "heads"]) {
    root.querySelector<HTMLElement>(`[data-tab=${tab}]`)!.click();
    await vi.waitFor(() => expect(root.querySelector(".view")).not.toBeNull());
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(root.querySelectorAll("img, script")).toHaveLength(0);
    // The text area shows what was typed; all else shows what cannot be seen as a mark.
    const shown = [...root.querySelectorAll("*")].filter((element) => !element.matches("textarea"));
    expect(
      shown.some(({ childNodes }) =>
        [...childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.includes("\u202e")),
      ),
    ).toBe(false);
  }
  expect((window as unknown as { hurt?: number }).hurt).toBeUndefined();
});

test("results alone show their numbers, and no text is run", async () => {
  const hello: Hello = { ...HELLO, models: [], results: [{ ...HELLO.results[0]!, model: null }] };
  const { root, host } = await opened(hello);
  await vi.waitFor(() => expect(root.querySelector('[data-head="3.4"]')).not.toBeNull());
  for (const tab of ["head", "words"]) {
    root.querySelector<HTMLElement>(`[data-tab=${tab}]`)!.click();
    await vi.waitFor(() =>
      expect(root.querySelector("[role=tabpanel] .empty")?.textContent).toContain("conoscope explore MODEL"),
    );
  }
  expect(new Set(host.asked.map(({ verb }) => verb))).not.toContain("run");
});

test("what is measured in the background is there without reloading", async () => {
  const greeting: Hello = {
    ...HELLO,
    results: [{ ...HELLO.results[0]!, tables: [] }],
    filling: { doing: "measuring bistro-small", done: 20, of: 100 },
  };
  const { root, host } = await opened(greeting);
  await vi.waitFor(() => expect(root.querySelector(".notes")?.textContent).toContain("measuring bistro-small"));
  Object.assign(host.greeting, { filling: null });
  await vi.waitFor(() => expect(root.querySelector(".notes")).toBeNull(), 3000);
});

test("keys do nothing to the views while one types", async () => {
  const { root } = await opened();
  root.querySelector("textarea")!.dispatchEvent(new KeyboardEvent("keydown", { key: "3", bubbles: true }));
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "2", bubbles: true }));
  await vi.waitFor(() => expect(root.querySelector("[data-tab=words]")?.getAttribute("aria-selected")).toBe("true"));
});
