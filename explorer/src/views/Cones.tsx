/** The view Cones: classes as cones of directions in a sphere, with examples and texts, and the true angles beside it. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { sameClasses } from "../cones/angles";
import { Apart, Towards } from "../cones/Charts";
import { Controls } from "../cones/Controls";
import { START, type View } from "../cones/camera";
import { type ConesData, type ConesReply, conesOf, type PlaceData, rowOf } from "../cones/data";
import type { Painted } from "../cones/Sphere";
import { type Filters, type SideText, StageView } from "../cones/StageView";
import { anglesCsv } from "../cones/saved";
import { resultsOf } from "../cones/sides";
import {
  AngleDifferences,
  ClassAngles,
  Explained,
  Parted,
  type Place,
  TextAngles,
  type TextPlace,
  TokenAngles,
} from "../cones/Tables";
import { type Side, showOf, useApp, useExport, useInput, useReply, useRun, useTheme } from "../context";

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

function Shown({ a, b, waiting, error }: ShownProps) {
  const { state, hello } = useApp();
  const view = useSignal<View>(START);
  const filters: Filters = { hidden: useSignal<ReadonlySet<number>>(new Set()), errorsOnly: useSignal(false) };
  const dark = useTheme().dark;
  useLayerOfOthers();
  const show = b ? state.show.value : showOf(state);
  const shown = show === "b" && b ? b : a;
  const { sites, layers } = shown.cones.data;
  const site = sites.includes(state.site.value) ? state.site.value : (sites[0] ?? "");
  const known = layers[site] ?? [];
  const layer = state.coneLayer.value ?? known.at(-1) ?? 0;
  const [ofA, ofB] = [useText("a", a.result, site, "A"), useText("b", (b ?? a).result, site, "B")];
  const [textA, textB] = [ofA.text, ofB.text];
  const nameOf = (measured: Measured) => hello.results[measured.result]?.name ?? "";
  const placeA = placed(a, site, layer, nameOf(a), b ? "A" : "");
  const placeB = b ? placed(b, site, layer, nameOf(b), "B") : null;
  const stages: StageOf[] = [];
  if (show !== "b" || !b) {
    const texts = [show === "b" ? null : textA, show !== "a" && !b ? textB : null].filter((text) => text !== null);
    stages.push({ measured: a, at: placeA, texts });
  }
  if (b && placeB && show !== "a") stages.push({ measured: b, at: placeB, texts: textB ? [textB] : [] });
  const textPlaces: TextPlace[] = stages.flatMap(({ at, texts }) =>
    texts.map(({ name, place, tokens }) => ({ name: `Text ${name}`, place, tokens, at })),
  );
  const section = useRef<HTMLElement>(null);
  const places = stages.map(({ at }) => at);
  useExport({
    name: `cones-${site}-${layer}`,
    csv: () => anglesCsv(places, textPlaces),
    canvas: () => pictureIn(section.current),
  });
  return (
    <section ref={section} class="cones-view" aria-label="Cones" aria-busy={waiting}>
      <div class="cones">
        <Controls data={shown.cones.data} site={site} layer={layer} filters={filters} view={view} dark={dark} />
        {[error, show === "b" ? null : ofA.error, show === "a" ? null : ofB.error].map((line, i) =>
          line ? (
            <p key={i} class="failure">
              {line}
            </p>
          ) : null,
        )}
        <div class={stages.length > 1 ? "stages two" : "stages"}>
          {stages.map(({ measured, at, texts }) => (
            <StageView key={measured.result} at={at} texts={texts} view={view} filters={filters} dark={dark} />
          ))}
        </div>
        <div class="beside">
          <Explained places={places} />
          {show === "diff" && b && placeB ? (
            sameClasses(a.cones, b.cones) ? (
              <>
                <Parted a={placeA} b={placeB} />
                <AngleDifferences a={placeA} b={placeB} dark={dark} />
              </>
            ) : (
              <p class="muted">The two results have different classes: their angles cannot be subtracted.</p>
            )
          ) : null}
          {stages.map(({ measured, at }) => (
            <ClassAngles key={measured.result} place={at} dark={dark} />
          ))}
          <TextAngles texts={textPlaces} dark={dark} />
          {textPlaces.map((text) => (
            <TokenAngles key={text.name} text={text} dark={dark} />
          ))}
          <Apart places={show === "a" || !placeB ? [placeA] : show === "b" ? [placeB] : [placeA, placeB]} dark={dark} />
          <Towards texts={textPlaces} dark={dark} />
        </div>
      </div>
    </section>
  );
}

/** The cones go along when the layer is changed by a key or beside them; until then they are at the last layer. */
function useLayerOfOthers(): void {
  const { state } = useApp();
  const layer = state.layer.value;
  const before = useRef(layer);
  useEffect(() => {
    if (layer !== before.current) state.coneLayer.value = layer;
    before.current = layer;
  }, [layer, state]);
}

/** The first drawing, on a canvas of its own. */
function pictureIn(section: HTMLElement | null): HTMLCanvasElement | null {
  const box = section?.querySelector<Painted>(".sphere-box");
  const canvas = box?.querySelector("canvas");
  return box?.painter && canvas ? box.painter.picture(canvas) : null;
}

interface StageOf {
  measured: Measured;
  at: Place;
  texts: SideText[];
}

interface Placing {
  text: SideText | null;
  error: string | null;
}

/** Where the text of a side is; null where there is no text or no model to run it with. */
function useText(side: Side, result: number, site: string, name: string): Placing {
  const { state } = useApp();
  const input = useInput(side);
  const params = input && site ? { ...input, result, site, centred: state.centred.value } : null;
  const { reply, error } = useReply<PlaceData>("place", params, { lane: `place:${side}` });
  const run = useRun(side);
  const dark = useTheme().dark;
  const tokens = run.reply?.data.tokens;
  const text = useMemo(
    () =>
      reply && !error
        ? { name, place: reply, colour: textColour(side, dark), tokens: tokens?.map(({ text }) => text) ?? [] }
        : null,
    [reply, error, tokens, name, side, dark],
  );
  return { text, error };
}

function textColour(side: Side, dark: boolean): string {
  return side === "a" ? (dark ? "#ffffff" : "#111111") : dark ? "#e8d94a" : "#7a5c00";
}

function placed({ cones }: Measured, site: string, layer: number, name: string, side: string): Place {
  const row = rowOf(cones.data, site, layer);
  const drawn = conesOf(cones.arrays, site, row, cones.data.classes.length);
  return { name, side, cones, site, row, layer: cones.data.layers[site]?.[row] ?? layer, drawn };
}
