/** The view Cones: classes as cones of directions in a sphere, with examples and texts, and the true angles beside it. */
import { type Signal, useSignal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { classAngles, degrees, meanBetween, sameClasses, textAngles } from "../cones/angles";
import { Controls } from "../cones/Controls";
import { START, type View } from "../cones/camera";
import { colourOf } from "../cones/colours";
import { type ConesData, type ConesReply, conesOf, median, type PlaceData, rowOf, rowValues } from "../cones/data";
import { Picked } from "../cones/Picked";
import { type Choice, counted, marksOf, type NamedPlace, nextShown, sceneOf } from "../cones/picture";
import { Sphere } from "../cones/Sphere";
import { resultsOf } from "../cones/sides";
import {
  AngleDifferences,
  ClassAngles,
  Explained,
  type Place,
  TextAngles,
  type TextPlace,
  TokenAngles,
} from "../cones/Tables";
import { type Side, showOf, useApp, useInput, useReply, useRun, useTheme } from "../context";
import { visible } from "../draw/text";
import { Lines } from "../stream/Lines";

export function ConesView() {
  const { hello, state } = useApp();
  const { a, b } = resultsOf(hello, {
    model: state.model.value,
    modelB: state.modelB.value,
    result: state.result.value,
    resultB: state.resultB.value,
  });
  const centred = state.centred.value;
  const first = useReply<ConesData>("cones", a === null ? null : { result: a, centred });
  const second = useReply<ConesData>("cones", b === null || b === a ? null : { result: b, centred });
  if (a === null) return <NoCones />;
  if (first.error && !first.reply) return <Failed error={first.error} retry={first.retry} />;
  if (!first.reply) return <p class="empty">Reading the cones …</p>;
  return (
    <Shown
      a={{ result: a, cones: first.reply }}
      b={b === a || b === null ? null : second.reply ? { result: b, cones: second.reply } : null}
      waiting={first.stale || second.stale}
      error={first.error ?? second.error}
    />
  );
}

function NoCones() {
  return (
    <p class="empty">
      Cones are drawn from what was measured on a corpus. Measure it, then open model and results together:{" "}
      <code>conoscope measure MODEL CORPUS -m class_cones -o OUT</code>, <code>conoscope explore MODEL OUT</code>.
    </p>
  );
}

function Failed({ error, retry }: { error: string; retry: () => void }) {
  return (
    <div class="empty" role="alert">
      <p>{error}</p>
      <button type="button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}

interface Measured {
  result: number;
  cones: ConesReply;
}

interface ShownProps {
  a: Measured;
  b: Measured | null;
  waiting: boolean;
  error: string | null;
}

/** Hidden classes, errors alone: what is not kept in the address. */
export interface Filters {
  hidden: Signal<ReadonlySet<number>>;
  errorsOnly: Signal<boolean>;
}

function Shown({ a, b, waiting, error }: ShownProps) {
  const { state, hello } = useApp();
  const view = useSignal<View>(START);
  const filters: Filters = { hidden: useSignal<ReadonlySet<number>>(new Set()), errorsOnly: useSignal(false) };
  const dark = useTheme().dark;
  const show = b ? state.show.value : showOf(state);
  const shown = show === "b" && b ? b : a;
  const { sites, layers } = shown.cones.data;
  const site = sites.includes(state.site.value) ? state.site.value : (sites[0] ?? "");
  const known = layers[site] ?? [];
  const layer = state.coneLayer.value ?? known.at(-1) ?? 0;
  const textA = useText("a", a.result, site, "A");
  const textB = useText("b", (b ?? a).result, site, "B");
  const placeOf = (measured: Measured) =>
    placed(measured, site, layer, b ? (hello.results[measured.result]?.name ?? "") : "");
  const [placeA, placeB] = [placeOf(a), b ? placeOf(b) : null];
  const stages: StageOf[] = [];
  if (show !== "b" || !b) {
    const texts = [show === "b" ? null : textA, show !== "a" && !b ? textB : null].filter((text) => text !== null);
    stages.push({ measured: a, at: placeA, texts });
  }
  if (b && placeB && show !== "a") stages.push({ measured: b, at: placeB, texts: textB ? [textB] : [] });
  const textPlaces: TextPlace[] = stages.flatMap(({ at, texts }) =>
    texts.map(({ name, place, tokens }) => ({ name: `Text ${name}`, place, tokens, at })),
  );
  return (
    <section class="cones" aria-label="Cones" aria-busy={waiting}>
      <Controls data={shown.cones.data} site={site} layer={layer} filters={filters} view={view} dark={dark} />
      {error ? <p class="error">{error}</p> : null}
      <div class={stages.length > 1 ? "stages two" : "stages"}>
        {stages.map(({ measured, at, texts }) => (
          <StageView key={measured.result} at={at} texts={texts} view={view} filters={filters} dark={dark} />
        ))}
      </div>
      <div class="beside">
        {stages.map(({ measured, at }) => (
          <div key={measured.result}>
            <Explained place={at} />
            <ClassAngles place={at} dark={dark} />
          </div>
        ))}
        {show === "diff" && b && placeB ? (
          sameClasses(a.cones, b.cones) ? (
            <AngleDifferences a={placeA} b={placeB} dark={dark} />
          ) : (
            <p class="muted">The two results have different classes: their angles cannot be subtracted.</p>
          )
        ) : null}
        <TextAngles texts={textPlaces} dark={dark} />
        {textPlaces.map((text) => (
          <TokenAngles key={text.name} text={text} dark={dark} />
        ))}
        <Apart places={show === "a" || !placeB ? [placeA] : show === "b" ? [placeB] : [placeA, placeB]} dark={dark} />
        <Towards texts={textPlaces} dark={dark} />
      </div>
    </section>
  );
}

interface SideText extends NamedPlace {
  tokens: string[];
}

interface StageOf {
  measured: Measured;
  at: Place;
  texts: SideText[];
}

/** Where the text of a side is; null where there is no text or no model to run it with. */
function useText(side: Side, result: number, site: string, name: string): SideText | null {
  const { state } = useApp();
  const input = useInput(side);
  const params = input && site ? { ...input, result, site, centred: state.centred.value } : null;
  const { reply } = useReply<PlaceData>("place", params, { lane: `place:${side}` });
  const run = useRun(side);
  const dark = useTheme().dark;
  const tokens = run.reply?.data.tokens;
  return useMemo(
    () =>
      reply
        ? { name, place: reply, colour: textColour(side, dark), tokens: tokens?.map(({ text }) => text) ?? [] }
        : null,
    [reply, tokens, name, side, dark],
  );
}

function textColour(side: Side, dark: boolean): string {
  return side === "a" ? (dark ? "#ffffff" : "#111111") : dark ? "#e8d94a" : "#7a5c00";
}

function placed({ cones }: Measured, site: string, layer: number, name: string): Place {
  const row = rowOf(cones.data, site, layer);
  const drawn = conesOf(cones.arrays, site, row, cones.data.classes.length);
  return { name, cones, site, row, layer: cones.data.layers[site]?.[row] ?? layer, drawn };
}

interface StageViewProps {
  at: Place;
  texts: SideText[];
  view: Signal<View>;
  filters: Filters;
  dark: boolean;
}

function StageView({ at, texts, view, filters, dark }: StageViewProps) {
  const { state } = useApp();
  const { cones, site, row, layer, name } = at;
  const [pointed, setPointed] = useState({ index: -1, x: 0, y: 0 });
  const [chosen, setChosen] = useState(-1);
  const lengths = state.lengths.value;
  const [hidden, errorsOnly] = [filters.hidden.value, filters.errorsOnly.value];
  const choice: Choice = useMemo(
    () => ({ site, row, lengths, hidden, errorsOnly }),
    [site, row, lengths, hidden, errorsOnly],
  );
  const base = useMemo(() => sceneOf(cones, choice), [cones, choice]);
  const marks = useMemo(() => marksOf(cones, choice, texts), [cones, choice, ...texts]);
  const mark = pointed.index >= 0 ? pointed.index : chosen;
  const scene = useMemo(() => ({ ...base, texts: marks, pointed: base.shown[mark] ? mark : -1 }), [base, marks, mark]);
  const count = useMemo(() => counted(base), [base]);
  const radius = lengths ? median(rowValues(cones.arrays[`length:${site}`], row)) : null;
  const point = cones.data.points[pointed.index];
  const picked = cones.data.points[chosen];
  return (
    <div class="stage">
      {name ? <h3>{visible(name, 40)}</h3> : null}
      <div class="stage-box">
        <Sphere
          scene={scene}
          view={view}
          label={spoken(at, count.shown)}
          onPoint={(index, x, y) => {
            if (index !== pointed.index) setPointed({ index, x, y });
          }}
          onChoose={setChosen}
        />
        {point ? (
          <div class="tip" ref={(element) => placeTip(element, pointed)} role="presentation">
            <bdi>{visible(point.id, 40)}</bdi>
            <br />
            {className(cones, point.label)} → {className(cones, point.predicted)}
          </div>
        ) : null}
      </div>
      <p class="muted">
        Layer {layer}: {count.shown.toLocaleString("en")} examples
        {count.shown ? `, ${count.wrong.toLocaleString("en")} of them wrong (✕)` : ""}.
        {count.shown
          ? ""
          : " No example is shown in this layer: measure with -m class_cones:vectors=all to sample them in every layer."}
        {radius === null ? "" : ` The sphere's radius is the median length, ${radius.toPrecision(3)}.`}{" "}
        {count.shown && !picked ? (
          <button type="button" class="link" onClick={() => setChosen(nextShown(base.shown, -1, 1))}>
            Go through the examples
          </button>
        ) : null}
      </p>
      {picked ? (
        <Picked
          point={picked}
          classes={cones.data.classes}
          dark={dark}
          onStep={(step) => setChosen(nextShown(base.shown, chosen, step))}
          onClose={() => setChosen(-1)}
        />
      ) : null}
    </div>
  );
}

function className(cones: ConesReply, index: number | null): string {
  return index === null ? "not known" : visible(cones.data.classes[index] ?? String(index));
}

/** The tip stays within the drawing. */
function placeTip(element: HTMLElement | null, { x, y }: { x: number; y: number }): void {
  if (!element?.parentElement) return;
  const room = element.parentElement.clientWidth;
  element.style.left = `${Math.max(0, Math.min(room - element.offsetWidth, x + 14))}px`;
  element.style.top = `${Math.max(0, y + 14)}px`;
}

function spoken({ cones, site, row, layer }: Place, count: number): string {
  const mean = meanBetween(classAngles(cones, site, row));
  return `Cones of ${cones.data.classes.length} classes and ${count} examples, layer ${layer}, site ${site}; ${degrees(mean)} between classes on average. The numbers are in the tables beside it.`;
}

/** Whether the classes part from layer to layer. */
function Apart({ places, dark }: { places: Place[]; dark: boolean }) {
  const { state } = useApp();
  const first = places[0]!;
  const columns = first.cones.data.layers[first.site] ?? [];
  if (columns.length < 2) return null;
  const series = places.map(({ cones, site, name }, i) => ({
    name: places.length > 1 ? `${"AB"[i]} ${name}` : "mean",
    colour: colourOf(i, dark),
    dashed: i > 0,
    values: columns.map((layer) => meanBetween(classAngles(cones, site, rowOf(cones.data, site, layer)))),
  }));
  return (
    <Lines
      title="Mean true angle between classes, by layer"
      series={series}
      columns={columns}
      format={(value) => degrees(value)}
      marked={first.row}
      onColumn={(column) => {
        state.coneLayer.value = columns[column] ?? null;
      }}
    />
  );
}

/** How a text comes nearer to its class from layer to layer. */
function Towards({ texts, dark }: { texts: TextPlace[]; dark: boolean }) {
  const { state } = useApp();
  const first = texts[0];
  if (!first) return null;
  const { cones, site, row } = first.at;
  const columns = cones.data.layers[site] ?? [];
  const { classes } = cones.data;
  if (columns.length < 2) return null;
  const series = texts.flatMap(({ place, at, name }, i) => {
    const rows = columns.map((layer, own) => textAngles(place, layer, own, at.cones.data.classes.length));
    return classes.map((label, c) => ({
      name: texts.length > 1 ? `${name.slice(-1)} ${label}` : label,
      colour: colourOf(c, dark),
      dashed: i > 0,
      values: rows.map((angles) => angles[c] ?? null),
    }));
  });
  return (
    <Lines
      title="True angle from the text to each class, by layer"
      series={series}
      columns={columns}
      format={(value) => degrees(value)}
      marked={row}
      onColumn={(column) => {
        state.coneLayer.value = columns[column] ?? null;
      }}
    />
  );
}
