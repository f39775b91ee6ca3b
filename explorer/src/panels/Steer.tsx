/** Turns the vector of the text towards the direction of a class, in one layer, and lets the answer follow. */
import { useState } from "preact/hooks";
import { setEdits } from "../actions";
import { modelOf, resultOf, useApp, useReply, useRun } from "../context";
import { visible } from "../draw/text";
import { Select } from "./parts";

interface Known {
  classes?: string[];
  layers?: Record<string, number[]>;
}

/** How far the slider turns, in degrees. */
const MOST = 90;

export function Steer() {
  const app = useApp();
  const model = modelOf(app, "a");
  const result = resultOf(app, "a");
  const able = app.host.live && model?.edits.hidden && model.classifies && result !== null;
  // Which classes and layers have directions is what the cones know; one point of them is enough.
  const cones = useReply<Known>("cones", able ? { result, points: 1 } : null, { lane: "steer" });
  const { classes = [], layers = {} } = cones.reply?.data ?? {};
  const known = layers.hidden ?? [];
  if (!able || !classes.length || !known.length) return null;
  return <Turning classes={classes} layers={known} />;
}

function Turning({ classes, layers }: { classes: string[]; layers: number[] }) {
  const { state } = useApp();
  const run = useRun("a").reply?.data;
  const predicted = run && run.predicted !== null ? run.labels[run.predicted] : undefined;
  const other = classes.findIndex((name) => name !== predicted);
  const now = state.edits.value.steer;
  const [chosen, setChosen] = useState({ layer: layers[Math.floor((layers.length - 1) / 2)]!, to: Math.max(0, other) });
  const { layer, to } = now ?? chosen;
  const angle = now?.angle ?? 0;
  const turn = (change: { layer?: number; to?: number; angle?: number }) => {
    const next = { layer, to, angle, ...change };
    setChosen({ layer: next.layer, to: next.to });
    setEdits(state, { steer: next });
  };
  return (
    <section aria-label="Turn the text's vector">
      <h2>Turn the text</h2>
      <p class="muted">
        Turns the vector that is classified from towards the direction of a class; its length stays. If the answer
        follows, the model reads this direction there.
      </p>
      <div class="buttons">
        <Select
          label="in layer"
          value={String(layer)}
          options={layers.map((one) => ({ value: String(one), name: one === 0 ? "0, embeddings" : String(one) }))}
          onChange={(value) => turn({ layer: Number(value) })}
        />
        <Select
          label="towards"
          value={String(to)}
          options={classes.map((name, i) => ({ value: String(i), name: visible(name, 24) }))}
          onChange={(value) => turn({ to: Number(value) })}
        />
      </div>
      <label class="slider">
        <span>by {angle}°</span>
        <input
          type="range"
          min={-MOST}
          max={MOST}
          step={1}
          value={angle}
          onInput={(event) => turn({ angle: Number(event.currentTarget.value) })}
        />
      </label>
    </section>
  );
}
