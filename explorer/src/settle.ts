/** Brings a state that came from an address into what this model has. */
import { batch } from "@preact/signals";
import type { Hello } from "./protocol";
import type { State } from "./state";

/** Sets what is beyond the models, layers and heads to the nearest that there is, and begins with a text. */
export function settle(state: State, hello: Hello): void {
  batch(() => {
    if (state.model.value >= hello.models.length) state.model.value = 0;
    if (state.modelB.value !== null && state.modelB.value >= hello.models.length) state.modelB.value = null;
    if (state.result.value >= hello.results.length) state.result.value = 0;
    const own = hello.results.findIndex(({ model }) => model === state.model.value);
    if (own >= 0 && state.result.value === 0) state.result.value = own;
    settleHead(state, hello);
    const text = state.text.value || firstText(hello);
    state.text.value = text.slice(0, hello.limits.characters);
    if (state.other.value !== null) state.other.value = state.other.value.slice(0, hello.limits.characters);
    if (!hello.methods.some(({ name }) => name === state.method.value))
      state.method.value = hello.methods[0]?.name ?? "";
    if (!hello.models.length && hello.results.length && state.tab.value !== "cones") state.tab.value = "heads";
  });
}

/** Begins with the second of two models beside the first: who opens two wants them compared. */
export function compareTwo(state: State, hello: Hello): void {
  if (hello.models.length !== 2) return;
  batch(() => {
    state.modelB.value = 1;
    state.show.value = "diff";
  });
}

/** Keeps layer and head within the model that is shown. */
export function settleHead(state: State, hello: Hello): void {
  const model = hello.models[state.model.value];
  if (!model) return;
  state.layer.value = Math.max(1, Math.min(state.layer.value, model.layers));
  state.head.value = Math.max(1, Math.min(state.head.value, model.heads[state.layer.value - 1] ?? 1));
}

function firstText(hello: Hello): string {
  const first = hello.texts[0];
  return typeof first === "string" ? first : (first?.text ?? "");
}
