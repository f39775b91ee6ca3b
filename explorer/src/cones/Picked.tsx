/** What is known of the example that was chosen in the drawing. */

import { setPair, setText } from "../actions";
import { useApp, useReply } from "../context";
import { visible } from "../draw/text";
import type { ConePoint } from "./data";
import { rightOf } from "./data";
import { Dot } from "./Tables";

/** More of a text is read in a text box, not here. */
const LONGEST = 4000;

export interface ExampleData {
  text: string;
  pair: string | null;
  label: number | null;
  rationale: unknown;
  id: string;
}

/** What asks for the text of a point. */
export function askedFor(point: ConePoint): object {
  return point.number === null ? { id: point.id } : { number: point.number };
}

interface PickedProps {
  point: ConePoint;
  classes: string[];
  dark: boolean;
  onStep: (step: 1 | -1) => void;
  onClose: () => void;
}

export function Picked({ point, classes, dark, onStep, onClose }: PickedProps) {
  const { state, hello, host } = useApp();
  const { reply, stale, error } = useReply<ExampleData>("example", askedFor(point), { lane: "example:cones" });
  const text = !stale && reply ? reply.data : null;
  const right = rightOf(point);
  const take = (side: "a" | "b") => {
    if (!text) return;
    if (side === "a") {
      setText(state, text.text);
      setPair(state, text.pair);
    } else {
      state.other.value = text.text;
      state.otherPair.value = text.pair;
    }
  };
  const name = (index: number | null) => (index === null ? "not known" : visible(classes[index] ?? String(index)));
  return (
    <section class="picked" aria-label="The chosen example" aria-live="polite">
      <header>
        <bdi class="id">{visible(point.id, 60)}</bdi>
        <span class="picked-buttons">
          <button type="button" onClick={() => onStep(-1)} title="The example before it in the sample">
            ‹ previous
          </button>
          <button type="button" onClick={() => onStep(1)} title="The next example of the sample">
            next ›
          </button>
          <button type="button" onClick={onClose} aria-label="Close the example">
            ×
          </button>
        </span>
      </header>
      <p>
        label <Dot index={point.label} dark={dark} /> <strong>{name(point.label)}</strong> · predicted{" "}
        <Dot index={point.predicted} dark={dark} /> <strong>{name(point.predicted)}</strong>
        {right === false ? <span class="wrong"> ✕ wrong</span> : null}
      </p>
      {error ? <p class="failure">{error}</p> : null}
      {text ? (
        <>
          <blockquote dir="auto">{visible(text.text, LONGEST)}</blockquote>
          {text.pair === null ? null : <blockquote dir="auto">{visible(text.pair, LONGEST)}</blockquote>}
          {hello.models.length && host.live ? (
            <p class="picked-buttons">
              <button type="button" onClick={() => take("a")}>
                Take as text A
              </button>
              <button type="button" onClick={() => take("b")}>
                Take as text B
              </button>
            </p>
          ) : null}
        </>
      ) : error ? null : (
        <p class="muted">Reading the text …</p>
      )}
    </section>
  );
}
