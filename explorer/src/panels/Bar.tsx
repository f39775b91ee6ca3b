/** The bar on top: which model, what it is compared with, and which of both is shown. */
import { batch } from "@preact/signals";
import { setModel } from "../actions";
import { showOf, useApp } from "../context";
import { shortName } from "../draw/text";
import type { Hello } from "../protocol";
import type { Show, State } from "../state";
import { Segments, Select } from "./parts";

export function Bar({ onHelp }: { onHelp: () => void }) {
  const app = useApp();
  const { state, hello, host } = app;
  const chosen = state.other.value !== null || state.modelB.value !== null;
  return (
    <header class="bar">
      <h1 class="name">conoscope</h1>
      <ModelChoice />
      {hello.models.length && host.live ? (
        <Select
          label="Compare with"
          value={comparedWith(state)}
          options={comparisons(hello, state)}
          onChange={(value) => compare(state, value)}
        />
      ) : null}
      {chosen ? (
        <Segments<Show>
          label="Show"
          value={showOf(state)}
          options={[
            { value: "a", name: "A" },
            { value: "b", name: "B" },
            { value: "diff", name: "B − A" },
          ]}
          onChange={(value) => {
            state.show.value = value;
          }}
        />
      ) : null}
      <button type="button" class="help" aria-label="Help and keys" title="Help and keys (?)" onClick={onHelp}>
        ?
      </button>
    </header>
  );
}

function ModelChoice() {
  const { state, hello } = useApp();
  if (!hello.models.length) return <span class="muted">results alone, no model is open</span>;
  if (hello.models.length === 1) return <span class="model">{shortName(hello.models[0]!.name, 60)}</span>;
  return (
    <Select
      label="Model"
      value={String(state.model.value)}
      options={hello.models.map(({ name }, i) => ({ value: String(i), name: shortName(name) }))}
      onChange={(value) => setModel(state, hello, Number(value))}
    />
  );
}

function comparedWith(state: State): string {
  if (state.modelB.value !== null) return `model ${state.modelB.value}`;
  return state.other.value === null ? "nothing" : "text";
}

function comparisons(hello: Hello, state: State): { value: string; name: string }[] {
  const models = hello.models.flatMap(({ name }, i) =>
    i === state.model.value ? [] : [{ value: `model ${i}`, name: shortName(name) }],
  );
  return [{ value: "nothing", name: "nothing" }, { value: "text", name: "another text" }, ...models];
}

/** Chooses what B is; a text begins as a copy, so that one word of it can be changed. */
function compare(state: State, value: string): void {
  batch(() => {
    const model = /^model (\d+)$/.exec(value);
    state.modelB.value = model ? Number(model[1]) : null;
    if (value === "text") {
      state.other.value = state.text.value;
      state.otherPair.value = state.pair.value;
    } else {
      state.other.value = null;
      state.otherPair.value = null;
    }
    state.show.value = value === "nothing" ? "a" : model ? "diff" : state.show.value;
  });
}
