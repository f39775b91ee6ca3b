/** What is drawn of the cones: layer, site, result, centring, lengths, classes. */
import { batch, type Signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { setModel } from "../actions";
import { useApp } from "../context";
import { visible } from "../draw/text";
import { Segments } from "../panels/parts";
import type { Show } from "../state";
import { START, type View, zoomed } from "./camera";
import type { ConesData } from "./data";
import type { Filters } from "./StageView";
import { haveCones, resultsOf } from "./sides";
import { Dot } from "./Tables";

/** How long each layer is shown when they are played, in milliseconds. */
const STAY = 1100;

interface ControlsProps {
  data: ConesData;
  site: string;
  layer: number;
  filters: Filters;
  view: Signal<View>;
  dark: boolean;
}

export function Controls({ data, site, layer, filters, view, dark }: ControlsProps) {
  const { state } = useApp();
  return (
    <div class="cones-controls">
      <Results />
      <label>
        Site{" "}
        <select value={site} onChange={(event) => (state.site.value = event.currentTarget.value)}>
          {data.sites.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <LayerSlider layers={data.layers[site] ?? []} layer={layer} />
      <label title="Takes the mean of the class directions away, which all texts share">
        <input
          type="checkbox"
          checked={state.centred.value}
          onChange={(event) => (state.centred.value = event.currentTarget.checked)}
        />{" "}
        centred
      </label>
      <label title="Points at their true length; else only directions are shown">
        <input
          type="checkbox"
          checked={state.lengths.value}
          onChange={(event) => (state.lengths.value = event.currentTarget.checked)}
        />{" "}
        true lengths
      </label>
      <Classes data={data} filters={filters} dark={dark} />
      <fieldset class="group">
        <legend class="unseen">View</legend>
        <button type="button" onClick={() => (view.value = zoomed(view.value, 1.25))} aria-label="Larger">
          +
        </button>
        <button type="button" onClick={() => (view.value = zoomed(view.value, 0.8))} aria-label="Smaller">
          −
        </button>
        <button type="button" onClick={() => (view.value = START)}>
          Reset view
        </button>
      </fieldset>
    </div>
  );
}

function LayerSlider({ layers, layer }: { layers: number[]; layer: number }) {
  const { state } = useApp();
  const [playing, setPlaying] = useState(false);
  const index = Math.max(0, layers.indexOf(layer));
  const choose = (next: number) => {
    const chosen = layers[next];
    if (chosen === undefined) return;
    state.coneLayer.value = chosen;
    // The other views count from 1; the embeddings are a layer here only.
    if (chosen >= 1) state.layer.value = chosen;
  };
  useEffect(() => {
    if (!playing) return;
    if (index >= layers.length - 1) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => choose(index + 1), STAY);
    return () => clearTimeout(timer);
  });
  if (layers.length < 2) return <span>Layer {layer}</span>;
  return (
    <span class="group">
      <label>
        Layer <output>{layer}</output>{" "}
        <input
          type="range"
          min={0}
          max={layers.length - 1}
          step={1}
          value={index}
          aria-valuetext={`layer ${layer}`}
          onInput={(event) => choose(Number(event.currentTarget.value))}
        />
      </label>
      <button
        type="button"
        aria-pressed={playing}
        onClick={() => {
          if (!playing && index >= layers.length - 1) choose(0);
          setPlaying(!playing);
        }}
      >
        {playing ? "Stop" : "Play"}
      </button>
    </span>
  );
}

function Results() {
  const { state, hello } = useApp();
  const able = haveCones(hello);
  if (able.length < 2) return null;
  const { a, b } = resultsOf(hello, {
    model: state.model.value,
    modelB: state.modelB.value,
    result: state.result.value,
    resultB: state.resultB.value,
  });
  // The bar has the same choice where B is a text or a model.
  const barShows = state.other.value !== null || state.modelB.value !== null;
  const options = able.map((i) => (
    <option key={i} value={i}>
      {visible(hello.results[i]!.name, 40)}
    </option>
  ));
  // Another model's result comes with its model, so that texts have their places in it.
  const chooseA = (result: number) => {
    const { model } = hello.results[result]!;
    batch(() => {
      if (model !== null && model !== state.model.value) setModel(state, hello, model);
      state.result.value = result;
    });
  };
  const chooseB = (result: number) => {
    const { model } = hello.results[result]!;
    batch(() => {
      state.modelB.value = model === null || model === state.model.value ? null : model;
      state.resultB.value = result;
      if (result !== a && state.show.value === "a") state.show.value = "diff";
    });
  };
  return (
    <fieldset class="group">
      <legend class="unseen">Results</legend>
      <label>
        Result A{" "}
        <select value={a ?? 0} onChange={(event) => chooseA(Number(event.currentTarget.value))}>
          {options}
        </select>
      </label>
      <label>
        Result B{" "}
        <select value={b ?? 0} onChange={(event) => chooseB(Number(event.currentTarget.value))}>
          {options}
        </select>
      </label>
      {a !== b && !barShows ? (
        <Segments<Show>
          label="Show"
          value={state.show.value}
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
    </fieldset>
  );
}

function Classes({ data, filters, dark }: { data: ConesData; filters: Filters; dark: boolean }) {
  const { hidden, errorsOnly } = filters;
  const turn = (c: number) => {
    const next = new Set(hidden.value);
    if (!next.delete(c)) next.add(c);
    hidden.value = next;
  };
  return (
    <fieldset class="classes">
      <legend class="unseen">Classes</legend>
      {data.classes.map((name, c) => (
        <label key={c}>
          <input type="checkbox" checked={!hidden.value.has(c)} onChange={() => turn(c)} />{" "}
          <Dot index={c} dark={dark} /> <bdi>{visible(name)}</bdi>
        </label>
      ))}
      <label>
        <input
          type="checkbox"
          checked={errorsOnly.value}
          onChange={(event) => (errorsOnly.value = event.currentTarget.checked)}
        />{" "}
        errors only (✕)
      </label>
    </fieldset>
  );
}
