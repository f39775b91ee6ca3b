/** The view of one head: what each token looks at, as links and as a matrix, beside the mean over the corpus. */
import { useMemo, useState } from "preact/hooks";
import { selectHead } from "../actions";
import { modelOf, resultOf, showOf, useApp, useExport, useReply, useTheme } from "../context";
import type { Theme } from "../draw/colour";
import { csvOf } from "../draw/csv";
import { withScale } from "../draw/legend";
import type { Focus } from "../draw/links";
import { mapIn, matrixLayout, matrixPicture, matrixPixels, pixelsOf, sentenceOf, strongest } from "../draw/maps";
import { largest, rootScale, type Scale, scaleFor } from "../draw/scale";
import { figure, percent, visible } from "../draw/text";
import { Drawn, Failure, ScaleLegend, Segments, Stepper, Waiting } from "../panels/parts";
import type { MapKind, MeanMapData } from "../protocol";
import { type ShownMap, useShownMap, useSides } from "../sides";
import { Links } from "./HeadLinks";
import { Matrix } from "./HeadMatrix";

export const MAP_NAMES: Record<MapKind, { name: string; about: string }> = {
  weights: {
    name: "weights α",
    about: "How much of its attention a token gives to each other. Each row adds up to 1.",
  },
  norms: {
    name: "norms ‖αf(x)‖",
    about: "How long the vector is that a token takes from each other: weight times what is there.",
  },
  residual: {
    name: "with residual",
    about:
      "What each token is made of after the layer, as shares: all heads, its own way past attention, and the normalisation.",
  },
};

export function HeadView() {
  const app = useApp();
  const { state } = app;
  const sides = useSides();
  const model = modelOf(app, sides.show === "b" ? "b" : "a");
  const kind = model?.maps.includes(state.map.value) ? state.map.value : "weights";
  const layer = Math.min(state.layer.value, model?.layers ?? 1);
  const head = Math.min(state.head.value, model?.heads[layer - 1] ?? 1);
  const shown = useShownMap(sides, kind, layer, head);
  if (!model) return <p class="empty">A head needs a model: open one with conoscope explore MODEL.</p>;
  return (
    <div class="view">
      <HeadControls layer={layer} head={head} kind={kind} />
      {sides.reason ? <Failure line={sides.reason} /> : null}
      {shown.map ? (
        <Maps shown={shown} kind={kind} layer={layer} head={head} />
      ) : sides.reason ? null : (
        <Waiting
          shown={shown.waiting}
          what="Computing the map"
          empty="Type a text on the left: what the head looks at is drawn here."
        />
      )}
    </div>
  );
}

function HeadControls({ layer, head, kind }: { layer: number; head: number; kind: MapKind }) {
  const app = useApp();
  const { state } = app;
  const model = modelOf(app, "a");
  if (!model) return null;
  return (
    <div class="controls">
      <Stepper
        label="Layer"
        value={layer}
        most={model.layers}
        onChange={(value) => selectHead(state, value, Math.min(head, model.heads[value - 1] ?? 1))}
      />
      <Stepper
        label="Head"
        value={head}
        most={model.heads[layer - 1] ?? 1}
        onChange={(value) => selectHead(state, layer, value)}
      />
      <Segments<MapKind>
        label="Map"
        value={kind}
        options={(["weights", "norms", "residual"] as const).map((value) => ({
          value,
          name: MAP_NAMES[value].name,
          title: MAP_NAMES[value].about,
          disabled: !model.maps.includes(value),
        }))}
        onChange={(value) => {
          state.map.value = value;
        }}
      />
    </div>
  );
}

interface MapsProps {
  shown: ShownMap;
  kind: MapKind;
  layer: number;
  head: number;
}

function Maps({ shown, kind, layer, head }: MapsProps) {
  const { state } = useApp();
  const { names, tokens, signed } = shown;
  const map = shown.map!;
  const [pointed, setPointed] = useState<Focus | null>(null);
  const [cell, setCell] = useState<{ row: number; column: number } | null>(null);
  const pinned = state.token.value !== null && state.token.value < map.size ? state.token.value : null;
  const focus: Focus | null = pointed ?? (pinned === null ? null : { row: pinned, side: "from" });
  const { buffer, byteOffset, length } = map.values;
  const scale = useMemo(() => scaleFor(map.values, signed, true), [buffer, byteOffset, length, signed]);
  const looks = useMemo(
    () => (signed || kind === "norms" ? null : sentenceOf(map, tokens)),
    [buffer, byteOffset, length, signed, kind, tokens],
  );
  const unit = signed ? "difference" : kind === "norms" ? "length" : kind === "weights" ? "weight" : "share";
  useExport({
    name: `head-${layer}.${head}-${kind}`,
    picture: (theme) => withScale(filePicture(shown, scale, theme), scale, `${unit}, head ${layer}.${head}`, theme),
    csv: () => mapCsv(shown),
  });
  return (
    <>
      <p class="reading">
        {signed ? "B − A: blue where B gives less, orange where B gives more. " : `${MAP_NAMES[kind].about} `}
        {looks ? <strong>{looks}</strong> : null}
      </p>
      <div class={shown.stale ? "head-pair stale" : "head-pair"}>
        <Links shown={shown} scale={scale} focus={focus} pinned={pinned} onPoint={setPointed} />
        <div class="head-side">
          <Matrix
            shown={shown}
            scale={scale}
            row={focus?.side === "from" ? focus.row : null}
            cell={cell}
            onCell={setCell}
          />
          <Readout shown={shown} cell={cell} focus={focus} kind={kind} />
          <ScaleLegend scale={scale} name={unit} />
          <MeanMap layer={layer} head={head} />
        </div>
      </div>
      <span class="unseen">{names.length} tokens</span>
    </>
  );
}

interface ReadoutProps {
  shown: ShownMap;
  cell: { row: number; column: number } | null;
  focus: Focus | null;
  kind: MapKind;
}

/** One sentence on what is pointed at. */
function Readout({ shown, cell, focus, kind }: ReadoutProps) {
  return (
    <p class="readout" aria-live="polite">
      <bdi>{readoutOf(shown, cell, focus, kind)}</bdi>
    </p>
  );
}

function readoutOf(shown: ShownMap, cell: ReadoutProps["cell"], focus: Focus | null, kind: MapKind): string {
  const map = shown.map!;
  const name = (i: number) => `“${visible(shown.names[i] ?? "", 20)}” (${i + 1})`;
  const amount = (value: number) => (kind !== "norms" && !shown.signed ? percent(value) : figure(value));
  if (cell) {
    const value = map.values[cell.row * map.size + cell.column]!;
    if (shown.signed) return `${name(cell.row)} to ${name(cell.column)}: ${figure(value)} more in B than in A`;
    if (kind === "residual") return `${name(cell.row)} is made of ${name(cell.column)} to ${amount(value)}`;
    return kind === "weights"
      ? `${name(cell.row)} gives ${amount(value)} of its weight to ${name(cell.column)}`
      : `${name(cell.row)} takes a vector of length ${amount(value)} from ${name(cell.column)}`;
  }
  if (!focus) return "Point at a token or a cell. A click keeps a token.";
  const line = Float32Array.from({ length: map.size }, (_, i) =>
    focus.side === "from" ? map.values[focus.row * map.size + i]! : map.values[i * map.size + focus.row]!,
  );
  const found = strongest(line, 3);
  const largestOf = Math.abs(line[found[0] ?? 0] ?? 0);
  const named = found.filter((i) => Math.abs(line[i]!) >= 0.01 * largestOf);
  const most = named.map((i) => `${name(i)} ${amount(line[i]!)}`);
  return focus.side === "from"
    ? `${name(focus.row)} looks most at ${most.join(", ")}`
    : `${name(focus.row)} is looked at most by ${most.join(", ")}`;
}

/** The mean map of the head over the corpus of a result. */
function MeanMap({ layer, head }: { layer: number; head: number }) {
  const app = useApp();
  const theme = useTheme();
  const index = resultOf(app, showOf(app.state) === "b" ? "b" : "a");
  const result = index === null ? null : app.hello.results[index];
  const params = result ? { result: index, layer, head } : null;
  const mean = useReply<MeanMapData>("mean_map", params, { lane: "mean_map" });
  if (!result) return null;
  const map = mapIn(
    mean.reply?.arrays.map && { ...mean.reply.arrays.map, shape: [1, ...mean.reply.arrays.map.shape] },
    1,
    1,
  );
  if (!map || !mean.reply) return mean.error ? <p class="muted">No mean over the corpus: {mean.error}</p> : null;
  const side = 160;
  const rgb = rootScale(largest(map.values)).rgb;
  const picture = {
    width: side,
    height: side,
    draw: (paint: Parameters<ReturnType<typeof matrixPicture>["draw"]>[0]) => {
      paint.image(0, 0, side, side, pixelsOf(map.values, map.size, rgb));
      paint.frame(0.5, 0.5, side - 1, side - 1, theme.line);
    },
  };
  return (
    <figure class="mean">
      <Drawn picture={picture} label={`Mean map of head ${layer}.${head} over the corpus`} />
      <figcaption>
        The same head over {visible(result.corpus, 40)}: the mean map, from the beginning of a text to its end
        {mean.reply.data.n ? ` (${mean.reply.data.n} texts)` : ""}.
      </figcaption>
    </figure>
  );
}

function filePicture(shown: ShownMap, scale: Scale, theme: Theme) {
  const layout = matrixLayout(shown.map!.size, shown.map!.size * 18 + 120);
  const pixels = matrixPixels(shown.map!, scale, layout);
  return matrixPicture(pixels, shown.names, layout, theme, { row: null, column: null });
}

/** A line for each pair of tokens. */
function mapCsv({ map, names }: ShownMap): string {
  const rows = Array.from(map!.values, (value, i) => {
    const [from, to] = [Math.floor(i / map!.size), i % map!.size];
    return [from + 1, names[from], to + 1, names[to], value];
  });
  return csvOf(["query", "query_token", "key", "key_token", "value"], rows);
}
