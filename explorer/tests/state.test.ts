import { describe, expect, test } from "vitest";
import { replaceWord, setModel, setText, toggleAblated, toggleErased } from "../src/actions";
import { HELLO } from "../src/mock";
import { compareTwo, settle } from "../src/settle";
import { createState, readFragment, type State, writeFragment } from "../src/state";

function values(state: State) {
  return Object.fromEntries(Object.entries(state).map(([key, { value }]) => [key, value]));
}

test("a state that is written and read is the same", () => {
  const state = createState();
  state.text.value = "50 % & more = ☃ #1\nnext\tline";
  state.other.value = "";
  state.tab.value = "heads";
  state.layer.value = 3;
  state.token.value = 0;
  state.edits.value = { erase: [2], replace: { 3: "good" }, ablate: [[2, 5]], how: "mean" };
  const read = createState();
  readFragment(read, `#${writeFragment(state)}`);
  expect(values(read)).toEqual(values(state));
});

test("what is at its default is left out", () => {
  expect(writeFragment(createState())).toBe("");
});

test("what a fragment does not say is at its default again", () => {
  const state = createState();
  state.tab.value = "stream";
  state.edits.value = { erase: [1] };
  readFragment(state, "#layer=2");
  expect(values(state)).toEqual({ ...values(createState()), layer: 2 });
});

describe("a hostile fragment", () => {
  test.each([
    "tab=__proto__&show=constructor&map=toString",
    "layer=-1&head=0&model=1e9&token=NaN&modelB=99999999999999999999",
    "layer=1.5&head=Infinity&result=0x10",
    "edits=%7B&edits=null",
    "edits=[1,2]",
    'edits={"erase":"all","replace":[1],"ablate":{"0":1},"how":"destroy","steer":{"layer":1}}',
    'edits={"erase":[-1,0.5,"2",null],"ablate":[[1],[1,2,3],["1","2"]],"replace":{"x":"y","1":2}}',
    "centred=yes",
    "&&&==&=tab&%",
  ])("%s leaves every key at its default", (fragment) => {
    const state = createState();
    readFragment(state, fragment);
    expect(values(state)).toEqual(values(createState()));
  });

  test("does not reach the prototype of objects", () => {
    const state = createState();
    readFragment(state, 'edits={"__proto__":{"erase":[1]},"replace":{"__proto__":"x","constructor":"y"}}&__proto__=1');
    expect(state.edits.value).toEqual({});
    expect(({} as Record<string, unknown>).erase).toBeUndefined();
  });

  test("with broken escapes is read as far as it goes", () => {
    const state = createState();
    readFragment(state, "text=%E0%A4%A&layer=2");
    expect([state.text.value, state.layer.value]).toEqual(["%E0%A4%A", 2]);
  });

  test("cannot bring a text without end", () => {
    const state = createState();
    readFragment(state, `text=${"x".repeat(300_000)}`);
    settle(state, HELLO);
    expect(state.text.value.length).toBe(HELLO.limits.characters);
  });
});

test("half a character in a text does not stop the address", () => {
  const state = createState();
  state.text.value = "a\ud83d";
  expect(writeFragment(state)).toBe("text=a%EF%BF%BD");
});

test("what is beyond the model is settled within it", () => {
  const state = createState();
  readFragment(state, "model=7&layer=99&head=99&modelB=9&result=9&method=magic");
  settle(state, HELLO);
  expect(values(state)).toMatchObject({ model: 0, layer: 3, head: 4, modelB: null, result: 0, method: "attention" });
  expect(state.text.value).toBe(HELLO.texts[0]);
});

test("of two models the second is beside the first, and of one or three none is", () => {
  for (const count of [1, 2, 3]) {
    const state = createState();
    compareTwo(state, { ...HELLO, models: HELLO.models.slice(0, count) });
    expect([state.modelB.value, state.show.value]).toEqual(count === 2 ? [1, "diff"] : [null, "a"]);
  }
});

describe("changes", () => {
  test("a word that is erased twice is there again", () => {
    const state = createState();
    toggleErased(state, 2);
    toggleErased(state, 0);
    expect(state.edits.value).toEqual({ erase: [0, 2] });
    toggleErased(state, 2);
    toggleErased(state, 0);
    expect(state.edits.value).toEqual({});
  });

  test("a word is erased or replaced, never both", () => {
    const state = createState();
    replaceWord(state, 1, " good ");
    expect(state.edits.value).toEqual({ replace: { 1: "good" } });
    toggleErased(state, 1);
    expect(state.edits.value).toEqual({ erase: [1] });
    replaceWord(state, 1, "fine");
    expect(state.edits.value).toEqual({ replace: { 1: "fine" } });
    replaceWord(state, 1, "  ");
    expect(state.edits.value).toEqual({});
  });

  test("a new text keeps heads out, and brings words back", () => {
    const state = createState();
    toggleErased(state, 1);
    toggleAblated(state, 2, 3);
    state.token.value = 4;
    setText(state, "another");
    expect(state.edits.value).toEqual({ ablate: [[2, 3]] });
    expect(state.token.value).toBeNull();
  });

  test("a new model brings heads back, and keeps words out", () => {
    const state = createState();
    toggleErased(state, 1);
    toggleAblated(state, 2, 3);
    state.modelB.value = 1;
    setModel(state, HELLO, 1);
    expect(state.edits.value).toEqual({ erase: [1] });
    expect(state.modelB.value).toBeNull();
  });
});
