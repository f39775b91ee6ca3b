/** What was changed about the text and the model, each with a button that takes it back. */
import { restoreWord, setEdits, toggleAblated } from "../actions";
import { useApp } from "../context";
import { visible, wordsIn } from "../draw/text";
import { Select } from "./parts";

export function EditList() {
  const { state } = useApp();
  const { erase = [], replace = {}, ablate = [], how, steer } = state.edits.value;
  const words = wordsIn(state.text.value, state.pair.value);
  const name = (word: number) => visible(words[word] ?? `word ${word + 1}`, 20);
  const items = [
    ...erase.map((word) => ({ text: `“${name(word)}” erased`, undo: () => restoreWord(state, word) })),
    ...Object.entries(replace).map(([word, by]) => ({
      text: `“${name(Number(word))}” is “${visible(by, 20)}”`,
      undo: () => restoreWord(state, Number(word)),
    })),
    ...ablate.map(([layer, head]) => ({
      text: `head ${layer}.${head} ${how === "mean" ? "at its mean" : "taken out"}`,
      undo: () => toggleAblated(state, layer, head),
    })),
    ...(steer
      ? [
          {
            text: `layer ${steer.layer} turned by ${steer.angle}°`,
            undo: () => setEdits(state, { steer: { ...steer, angle: 0 } }),
          },
        ]
      : []),
  ];
  if (!items.length) return null;
  return (
    <div class="edits">
      <ul aria-label="Changes">
        {items.map(({ text, undo }) => (
          <li key={text}>
            <bdi>{text}</bdi>
            <button type="button" aria-label={`Take back: ${text}`} onClick={undo}>
              ×
            </button>
          </li>
        ))}
      </ul>
      {ablate.length ? (
        <Select
          label="Heads out become"
          value={how ?? "zero"}
          options={[
            { value: "zero", name: "zero" },
            { value: "mean", name: "their mean" },
          ]}
          onChange={(value) => setEdits(state, { how: value === "mean" ? "mean" : "zero" })}
        />
      ) : null}
      <button
        type="button"
        class="quiet"
        onClick={() => {
          state.edits.value = {};
        }}
      >
        Take all changes back
      </button>
    </div>
  );
}
