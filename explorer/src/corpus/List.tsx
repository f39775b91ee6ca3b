/** A list of any length of which only the rows in sight are in the document. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../context";
import { visible } from "../draw/text";
import { type CorpusRow, nameOf, PAGE } from "./asked";
import type { Pages } from "./pages";
import { afterKey, pagesOf, scrollTo, type Window, windowOf } from "./window";

/** The height of a row in pixels, as the style sheet has it. */
const ROW = 72;
/** Pages that are only scrolled past are not asked for. */
const PAUSE = 70;

interface ListProps {
  pages: Pages;
  /** Grows when the pages have changed. */
  version: number;
  total: number;
  labels: string[];
  onTake: (row: CorpusRow, side: "a" | "b") => void;
  taken: { a: number | null; b: number | null };
}

export function List({ pages, total, labels, onTake, taken }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const [height, setHeight] = useState(400);
  const [active, setActive] = useState(0);
  const focus = useRef(false);
  const window = windowOf(scrolled, height, ROW, total);
  useWanted(pages, window);

  useEffect(() => {
    if (typeof ResizeObserver === "undefined") return;
    const look = new ResizeObserver(() => setHeight(box.current?.clientHeight || 400));
    look.observe(box.current!);
    return () => look.disconnect();
  }, []);
  useEffect(() => {
    box.current!.scrollTop = 0;
    setScrolled(0);
    setActive(0);
  }, [pages.filter]);
  useEffect(() => {
    if (!focus.current) return;
    focus.current = false;
    box.current?.querySelector<HTMLElement>(`[data-row="${active}"]`)?.focus({ preventScroll: true });
  });

  const moved = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = afterKey(event.key, active, total, Math.max(1, Math.floor(height / ROW) - 1));
    if (next === null) return;
    event.preventDefault();
    focus.current = true;
    setActive(next);
    box.current!.scrollTop = scrollTo(next, box.current!.scrollTop, height, ROW);
    setScrolled(box.current!.scrollTop);
  };
  // The row that Tab comes to is always there, even if it was scrolled away.
  const indices = Array.from({ length: window.to - window.from }, (_, i) => window.from + i);
  if (total > 0 && !indices.includes(active) && active < total) indices.push(active);
  return (
    <div class="corpus-scroll" ref={box} onScroll={(event) => setScrolled(event.currentTarget.scrollTop)}>
      <ul style={{ height: `${total * ROW}px` }} onKeyDown={moved} aria-label="Texts of the corpus">
        {indices.map((index) => (
          <Row
            key={index}
            index={index}
            total={total}
            row={pages.row(index)}
            labels={labels}
            inOrder={index === active}
            onTake={onTake}
            onFocus={() => setActive(index)}
            taken={taken}
          />
        ))}
      </ul>
    </div>
  );
}

/** Asks for the pages of the rows in sight when scrolling pauses, and at once for the first. */
function useWanted(pages: Pages, window: Window): void {
  const wanted = pagesOf(window, PAGE);
  const numbers = wanted.length ? wanted : [0];
  const key = numbers.join(" ");
  const first = useRef<Pages | null>(null);
  useEffect(() => {
    const wait = first.current === pages ? PAUSE : 0;
    first.current = pages;
    const timer = setTimeout(() => pages.want(numbers), wait);
    return () => clearTimeout(timer);
  }, [pages, key]);
}

interface RowProps {
  index: number;
  total: number;
  row: CorpusRow | null;
  labels: string[];
  inOrder: boolean;
  onTake: ListProps["onTake"];
  onFocus: () => void;
  taken: ListProps["taken"];
}

function Row({ index, total, row, labels, inOrder, onTake, onFocus, taken }: RowProps) {
  const { hello, host } = useApp();
  const place = { transform: `translateY(${index * ROW}px)` };
  const order = inOrder ? 0 : -1;
  if (!row) {
    return (
      <li style={place} class="waiting" aria-setsize={total} aria-posinset={index + 1}>
        <button
          type="button"
          class="text"
          data-row={index}
          tabIndex={order}
          onFocus={onFocus}
          aria-label={`Row ${index + 1}, loading`}
        >
          <span class="muted">{index + 1} …</span>
        </button>
      </li>
    );
  }
  const wrong = row.label !== null && row.predicted !== null && row.label !== row.predicted;
  const live = hello.models.length > 0 && host.live;
  return (
    <li
      style={place}
      aria-setsize={total}
      aria-posinset={index + 1}
      class={taken.a === row.number ? "is-a" : taken.b === row.number ? "is-b" : ""}
    >
      <button
        type="button"
        class="text"
        data-row={index}
        tabIndex={order}
        onFocus={onFocus}
        aria-pressed={taken.a === row.number}
        title={live ? "Take as text A" : row.id}
        onClick={() => onTake(row, "a")}
      >
        <span class="row-text" dir="auto">
          {visible(row.text, 300)}
        </span>
        <span class="row-facts">
          <bdi>{visible(nameOf(labels, row.label))}</bdi>
          {row.predicted === null ? null : (
            <>
              {" → "}
              <bdi class={wrong ? "wrong" : ""}>
                {wrong ? "✕ " : ""}
                {visible(nameOf(labels, row.predicted))}
              </bdi>
            </>
          )}
          {row.probability === null ? "" : ` ${row.probability.toFixed(2)}`}
          {row.angle === null ? null : (
            <span title="The true angle to the direction of its own class, in the last layer">
              {" "}
              · {row.angle.toFixed(0)}° off
            </span>
          )}
        </span>
      </button>
      {live ? (
        <button
          type="button"
          class="as-b"
          tabIndex={order}
          aria-pressed={taken.b === row.number}
          title="Take as text B"
          onClick={() => onTake(row, "b")}
        >
          B
        </button>
      ) : null}
    </li>
  );
}
