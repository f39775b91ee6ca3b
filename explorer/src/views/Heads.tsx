/** The view of all heads: a grid of layers and heads that shows maps, kinds, numbers, or the effect of taking heads out. */
import { useState } from "preact/hooks";
import { selectHead } from "../actions";
import { modelOf, resultOf, type Shown, useApp, useReply } from "../context";
import { minus, tensorMinus } from "../draw/difference";
import { gatesOf, THRESHOLDS } from "../draw/gates";
import { type Cell, shortFigure, thumbAt, valueAt } from "../draw/heads";
import { evenShare, looksOf, mapIn } from "../draw/maps";
import { percent, shortName, visible } from "../draw/text";
import { GRID_OPTIONS, type GridOption, gateOf, optionOf } from "../gridOptions";
import { Failure, Select, Waiting } from "../panels/parts";
import type { GridData, ModelInfo, Reply, RunData, Tensor } from "../protocol";
import { type Sides, useSides } from "../sides";
import { Grid, type Shape } from "./HeadsGrid";

export function HeadsView() {
  const app = useApp();
  const { state, hello } = app;
  const sides = useSides();
  const option = optionOf(state.grid.value, hello.models.length > 0);
  return (
    <div class="view">
      <div class="controls">
        <GridChoice option={option} />
        {option.of === "corpus" ? <ResultChoice /> : null}
      </div>
      <p class="reading">{option.about}</p>
      {option.of === "corpus" ? (
        <CorpusGrid option={option} sides={sides} />
      ) : (
        <TextGrid option={option} sides={sides} />
      )}
    </div>
  );
}

function GridChoice({ option }: { option: GridOption }) {
  const { state, hello } = useApp();
  const list = (of: "text" | "corpus") => GRID_OPTIONS.filter((one) => one.of === of);
  return (
    <label class="select">
      <span>Each head shows</span>
      <select
        value={option.value}
        onChange={(event) => {
          state.grid.value = event.currentTarget.value;
        }}
      >
        {hello.models.length ? (
          <optgroup label="of this text">
            {list("text").map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </optgroup>
        ) : null}
        {hello.results.length ? (
          <optgroup label="over the corpus">
            {list("corpus").map(({ value, name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </optgroup>
        ) : null}
      </select>
    </label>
  );
}

/** Which result is shown, where several measured the model. */
function ResultChoice() {
  const app = useApp();
  const { state, hello } = app;
  const able = hello.results.flatMap(({ name, model }, i) =>
    !hello.models.length || model === state.model.value ? [{ value: String(i), name: shortName(name, 60) }] : [],
  );
  if (able.length < 2) return null;
  return (
    <Select
      label="Result"
      value={String(resultOf(app, "a") ?? "")}
      options={able}
      onChange={(value) => {
        state.result.value = Number(value);
      }}
    />
  );
}

function TextGrid({ option, sides }: { option: GridOption; sides: Sides }) {
  const app = useApp();
  const side = sides.show === "b" ? "b" : "a";
  const model = modelOf(app, side);
  const run = sides.show === "b" ? sides.b : sides.a;
  if (!model)
    return (
      <p class="empty">These need a model: open one with conoscope explore MODEL, or choose numbers over the corpus.</p>
    );
  if (sides.show === "diff" && sides.reason) return <Failure line={sides.reason} />;
  if (!run.reply || (sides.show === "diff" && !sides.b.reply)) {
    const missing = run.reply ? sides.b : run;
    return (
      <Waiting
        shown={missing}
        what="Running the model"
        empty="Type a text on the left: what its heads do is drawn here."
      />
    );
  }
  if (option.kind === "gate" && sides.show === "diff") {
    return <GateChanges a={run.reply.data} b={sides.b.reply!.data} model={model} />;
  }
  const values = option.kind === "value" ? valuesOf(option, sides, model) : undefined;
  if (option.kind === "value" && !values) {
    return (
      <p class="empty">
        The maps of so long a text are not held here, so this cannot be computed; choose the maps or the entropy.
      </p>
    );
  }
  const signed = sides.show === "diff";
  return (
    <Grid
      option={option}
      shape={model}
      values={values}
      signed={signed}
      stale={run.stale}
      of={[run.reply, sides.b.reply, null]}
      cellOf={(layer, head) => textCell(option, sides, run.reply!, values, layer, head)}
      textOf={(layer, head) => describe(option, gateOf(run.reply!.data, layer, head), valueAt(values, layer, head))}
      even={option.look && !signed ? evenShare(option.look, run.reply.data.tokens) : null}
    />
  );
}

/** The numbers of a grid: an array of the run, or the shares that its maps give to a neighbour. */
function valuesOf(option: GridOption, sides: Sides, model: ModelInfo): Tensor | undefined {
  const of = (run: Shown<RunData>) =>
    option.array
      ? run.reply?.arrays[option.array]
      : option.look
        ? looksTensor(run.reply, option.look, model)
        : undefined;
  if (sides.show === "a") return of(sides.a);
  if (sides.show === "b") return of(sides.b);
  return tensorMinus(of(sides.b), of(sides.a));
}

const looked = new WeakMap<Reply<RunData>, Map<string, Tensor>>();

/** For each head the share of its weight that goes one way; computed once for a reply. */
function looksTensor(
  reply: Reply<RunData> | null,
  look: NonNullable<GridOption["look"]>,
  model: ModelInfo,
): Tensor | undefined {
  if (!reply?.arrays.weights) return undefined;
  const known = looked.get(reply) ?? new Map<string, Tensor>();
  looked.set(reply, known);
  if (!known.has(look)) {
    const heads = Math.max(...model.heads);
    const values = new Float32Array(model.layers * heads).fill(Number.NaN);
    for (let layer = 1; layer <= model.layers; layer++) {
      for (let head = 1; head <= heads; head++) {
        const map = mapIn(reply.arrays.weights, layer, head);
        if (map) values[(layer - 1) * heads + head - 1] = looksOf(map, reply.data.tokens)[look];
      }
    }
    known.set(look, { shape: [model.layers, heads], values });
  }
  return known.get(look);
}

function textCell(
  option: GridOption,
  sides: Sides,
  reply: Reply<RunData>,
  values: Tensor | undefined,
  layer: number,
  head: number,
): Cell {
  if (option.kind === "gate") return { kind: "gate", name: gateOf(reply.data, layer, head) };
  if (option.kind === "value") {
    const value = valueAt(values, layer, head);
    const share = option.look !== undefined && Number.isFinite(value);
    return { kind: "value", value, text: share ? `${Math.round(value * 100)}%`.replace("-", "−") : shortFigure(value) };
  }
  const own = thumbAt(reply.arrays.thumbs, layer, head);
  if (!own) return { kind: "none" };
  if (sides.show !== "diff") return { kind: "map", side: own.side, values: own.values, signed: false };
  const other = thumbAt(sides.b.reply?.arrays.thumbs, layer, head);
  const apart = other ? minus(other.values, own.values) : null;
  return apart ? { kind: "map", side: own.side, values: apart, signed: true } : { kind: "none" };
}

function describe(option: GridOption, gate: string | null, value: number): string {
  if (option.kind === "map") return gate ? `kind: ${gate}` : "";
  if (option.kind === "gate") return gate ?? "mixed";
  return option.look ? percent(value) : shortFigure(value);
}

/** Which heads are of another kind in B: names have no difference, but they change. */
function GateChanges({ a, b, model }: { a: RunData; b: RunData; model: ModelInfo }) {
  const { state } = useApp();
  const changed = model.heads.flatMap((heads, l) =>
    Array.from({ length: heads }, (_, h) => [l + 1, h + 1] as const).filter(
      ([layer, head]) => gateOf(a, layer, head) !== gateOf(b, layer, head),
    ),
  );
  if (!changed.length) return <p class="empty">All heads are of the same kind in A and in B.</p>;
  return (
    <ul class="changes">
      {changed.map(([layer, head]) => (
        <li key={`${layer}.${head}`}>
          <button type="button" class="quiet" onClick={() => selectHead(state, layer, head)}>
            head {layer}.{head}
          </button>
          : {gateOf(a, layer, head) ?? "mixed"} → {gateOf(b, layer, head) ?? "mixed"}
        </li>
      ))}
    </ul>
  );
}

/** The results of A and of B: of those that measured their models, and without models the chosen one. */
function useGridReplies(
  option: GridOption,
  sides: Sides,
): { a: Shown<GridData>; b: Shown<GridData>; index: number | null } {
  const app = useApp();
  const [a, b] = [resultOf(app, "a"), resultOf(app, "b")];
  const ask = (result: number | null) => (result === null ? null : { result, what: option.what });
  const replyA = useReply<GridData>("grid", ask(a), { lane: "grid:a" });
  const replyB = useReply<GridData>("grid", sides.show === "a" ? null : ask(b), { lane: "grid:b" });
  return { a: replyA, b: replyB, index: sides.show === "b" ? b : a };
}

function CorpusGrid({ option, sides }: { option: GridOption; sides: Sides }) {
  const { hello } = useApp();
  const { a, b, index } = useGridReplies(option, sides);
  if (!hello.results.length) return <NoResults />;
  if (index === null) {
    return (
      <p class="empty">No result that is open measured this model. Choose its model above, or open its result too.</p>
    );
  }
  const shown = sides.show === "b" ? b : a;
  const missing = shown.reply ? (sides.show === "diff" && !b.reply ? b : null) : shown;
  if (missing) return <Waiting shown={missing} what="Reading the tables" />;
  const reply = shown.reply!;
  if (sides.show !== "diff" || option.kind === "gate") {
    return (
      <CorpusNumbers
        option={option}
        reply={reply}
        index={index}
        values={reply.arrays.value}
        signed={option.value === "ablation"}
        stale={shown.stale}
      />
    );
  }
  const values = tensorMinus(b.reply?.arrays.value, a.reply?.arrays.value);
  if (!values) return <Failure line="B − A needs results of models of the same shape. Show A or B instead." />;
  return <CorpusNumbers option={option} reply={reply} index={index} values={values} signed stale={shown.stale} />;
}

function NoResults() {
  return (
    <p class="empty">
      Numbers over a corpus need a result: <code>conoscope measure MODEL CORPUS -o OUT</code>, then{" "}
      <code>conoscope explore OUT</code>.
    </p>
  );
}

interface CorpusNumbersProps {
  option: GridOption;
  reply: Reply<GridData>;
  index: number;
  values: Tensor | undefined;
  signed: boolean;
  stale: boolean;
}

function CorpusNumbers({ option, reply, index, values: found, signed, stale }: CorpusNumbersProps) {
  const { hello } = useApp();
  const [limits, setLimits] = useState<Record<string, number>>({});
  const gates = option.kind === "gate";
  const scores = useReply<{ about?: string }>("scores", gates ? { result: index } : null, { lane: "scores" });
  const { data, arrays } = reply;
  const named = (layer: number, head: number) => {
    const own = Object.keys(limits).length ? scoresAt(scores.reply?.arrays, layer, head) : null;
    return own ? gatesOf(own, limits).join(" + ") || "mixed" : (data.gates?.[layer - 1]?.[head - 1] ?? null);
  };
  const values = gates ? undefined : found;
  return (
    <>
      <Grid
        option={option}
        shape={shapeOf(arrays.value, data.gates)}
        values={values}
        signed={signed}
        stale={stale}
        of={[reply, limits, scores.reply]}
        cellOf={(layer, head) => {
          if (gates) return { kind: "gate", name: named(layer, head) };
          const value = valueAt(values, layer, head);
          return { kind: "value", value, text: shortFigure(value) };
        }}
        textOf={(layer, head) => describe(option, named(layer, head), valueAt(values, layer, head))}
      />
      <p class="muted">
        {visible(hello.results[index]?.name ?? "", 120)}
        {typeof data.n === "number" ? `, n = ${data.n}` : ""}. {visible(data.about ?? "", 300)}
      </p>
      {gates && Object.keys(scores.reply?.arrays ?? {}).length ? (
        <Thresholds limits={limits} onChange={setLimits} />
      ) : null}
    </>
  );
}

/** The scores of a head by name. */
function scoresAt(
  arrays: Record<string, Tensor> | undefined,
  layer: number,
  head: number,
): Record<string, number> | null {
  if (!arrays) return null;
  return Object.fromEntries(Object.entries(arrays).map(([name, tensor]) => [name, valueAt(tensor, layer, head)]));
}

function shapeOf(values: Tensor | undefined, gates: GridData["gates"]): Shape {
  const [layers = 0, heads = 0] = values?.shape ?? [];
  if (layers) return { layers, heads: Array<number>(layers).fill(heads) };
  return { layers: gates?.length ?? 0, heads: (gates ?? []).map((row) => row.length) };
}

/** Sliders for the thresholds that name gates; they change names alone, nothing is measured again. */
function Thresholds({
  limits,
  onChange,
}: {
  limits: Record<string, number>;
  onChange: (limits: Record<string, number>) => void;
}) {
  return (
    <details class="thresholds">
      <summary>Thresholds of the kinds</summary>
      <p class="muted">
        Moving them names the heads anew from the scores that were measured. It changes nothing in the tables.
      </p>
      <div class="sliders">
        {THRESHOLDS.map(({ name, about, initial, low, high }) => (
          <label key={name} class="slider">
            <span>
              {about} {(limits[name] ?? initial).toFixed(2)}
            </span>
            <input
              type="range"
              min={low}
              max={high}
              step={(high - low) / 200}
              value={limits[name] ?? initial}
              onInput={(event) => onChange({ ...limits, [name]: Number(event.currentTarget.value) })}
            />
          </label>
        ))}
      </div>
      <button type="button" class="quiet" onClick={() => onChange({})}>
        As measured
      </button>
    </details>
  );
}
