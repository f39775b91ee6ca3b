/** One result's cones in their sphere, with what is pointed at and what was chosen. */
import type { Signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { useApp } from "../context";
import { visible } from "../draw/text";
import { classAngles, degrees, meanBetween } from "./angles";
import type { View } from "./camera";
import { type ConesReply, radiusOf, rowValues } from "./data";
import { Picked } from "./Picked";
import { type Choice, counted, marksOf, type NamedPlace, nextShown, sceneOf } from "./picture";
import { Sphere } from "./Sphere";
import type { Place } from "./Tables";

/** Hidden classes, errors alone: what is not kept in the address. */
export interface Filters {
  hidden: Signal<ReadonlySet<number>>;
  errorsOnly: Signal<boolean>;
}

export interface SideText extends NamedPlace {
  tokens: string[];
}

interface StageViewProps {
  at: Place;
  texts: SideText[];
  view: Signal<View>;
  filters: Filters;
  dark: boolean;
}

export function StageView({ at, texts, view, filters, dark }: StageViewProps) {
  const { state } = useApp();
  const { cones, site, row, layer, side, name } = at;
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
  const count = useMemo(() => counted(base, cones.data.points), [base, cones]);
  const radius = lengths ? radiusOf(rowValues(cones.arrays[`length:${site}`], row)) : null;
  const point = cones.data.points[pointed.index];
  const picked = cones.data.points[chosen];
  return (
    <div class="stage">
      {side ? (
        <h3>
          {side}: <bdi>{visible(name, 60)}</bdi>
        </h3>
      ) : null}
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
        {count.wrong === null ? "" : `, ${count.wrong.toLocaleString("en")} of them wrong (✕)`}.
        {count.shown
          ? ""
          : " No example is shown in this layer: measure with -m class_cones:vectors=all to sample them in every layer."}
        {texts.length
          ? ` ${texts.map(({ name }) => `● ${name}`).join(", ")}: what is classified; line: its path from layer to layer; □: its tokens.`
          : ""}
        {radius === null ? "" : ` Nine in ten are shorter than the sphere's radius, ${radius.toPrecision(3)}.`}{" "}
        {count.shown && !picked ? (
          <button type="button" class="quiet" onClick={() => setChosen(nextShown(base.shown, -1, 1))}>
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
