/** What a click or a key does to the state. */
import { batch } from "@preact/signals";
import type { Edits, Hello } from "./protocol";
import { settleHead } from "./settle";
import { type State, withoutEmpty } from "./state";

export function setEdits(state: State, change: Edits): void {
  state.edits.value = withoutEmpty({ ...state.edits.value, ...change });
}

/** Erases a word, or brings it back; an erased word has no replacement. */
export function toggleErased(state: State, word: number): void {
  const { erase = [], replace = {} } = state.edits.value;
  const { [String(word)]: _, ...others } = replace;
  const erased = erase.includes(word)
    ? erase.filter((other) => other !== word)
    : [...erase, word].sort((a, b) => a - b);
  setEdits(state, { erase: erased, replace: others });
}

/** Replaces a word; with an empty text it is itself again. */
export function replaceWord(state: State, word: number, by: string): void {
  const { erase = [], replace = {} } = state.edits.value;
  const { [String(word)]: _, ...others } = replace;
  const text = by.trim();
  setEdits(state, {
    erase: erase.filter((other) => other !== word),
    replace: text ? { ...others, [String(word)]: text } : others,
  });
}

export function restoreWord(state: State, word: number): void {
  replaceWord(state, word, "");
}

export function isAblated(edits: Edits, layer: number, head: number): boolean {
  return (edits.ablate ?? []).some(([l, h]) => l === layer && h === head);
}

/** Takes a head out of the model, or puts it back. */
export function toggleAblated(state: State, layer: number, head: number): void {
  const { ablate = [] } = state.edits.value;
  const others = ablate.filter(([l, h]) => l !== layer || h !== head);
  setEdits(state, { ablate: isAblated(state.edits.value, layer, head) ? others : [...others, [layer, head]] });
}

/** A new text: edits of words, and what was selected in the old one, mean nothing any more. */
export function setText(state: State, text: string): void {
  if (text === state.text.value) return;
  batch(() => {
    state.text.value = text;
    forgetWords(state);
  });
}

export function setPair(state: State, pair: string | null): void {
  batch(() => {
    state.pair.value = pair;
    forgetWords(state);
  });
}

function forgetWords(state: State): void {
  state.token.value = null;
  state.word.value = null;
  setEdits(state, { erase: [], replace: {} });
}

/** Another model: heads and directions of the old one mean nothing any more. */
export function setModel(state: State, hello: Hello, model: number): void {
  batch(() => {
    state.model.value = model;
    if (state.modelB.value === model) state.modelB.value = null;
    const { erase = [], replace = {} } = state.edits.value;
    state.edits.value = withoutEmpty({ erase, replace });
    const result = hello.results.findIndex((one) => one.model === model);
    if (result >= 0) state.result.value = result;
    settleHead(state, hello);
  });
}

export function selectHead(state: State, layer: number, head: number): void {
  batch(() => {
    state.layer.value = layer;
    state.head.value = head;
  });
}
