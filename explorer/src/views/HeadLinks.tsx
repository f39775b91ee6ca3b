/** The links of a head: tokens in two columns, who looks and what is looked at. */
import { useMemo, useState } from "preact/hooks";
import { useApp, useTheme, useWidth } from "../context";
import { DENSE, type Focus, linksLayout, linksPicture, linksShown, MOST, rowAt } from "../draw/links";
import { isSpecial } from "../draw/maps";
import type { Scale } from "../draw/scale";
import { percent, visible } from "../draw/text";
import { Drawn } from "../panels/parts";
import type { ShownMap } from "../sides";

/** The share of the window's height that the links may take. */
const TALL = 0.72;

interface LinksProps {
  shown: ShownMap;
  scale: Scale;
  focus: Focus | null;
  pinned: number | null;
  onPoint: (focus: Focus | null) => void;
}

export function Links({ shown, scale, focus, pinned, onPoint }: LinksProps) {
  const { state } = useApp();
  const theme = useTheme();
  const [ref, width] = useWidth<HTMLDivElement>(420);
  const [share, setShare] = useState(0.1);
  const map = shown.map!;
  const longest = useMemo(
    () => Math.max(4, ...shown.names.map((name) => [...visible(name, 16)].length)),
    [shown.names],
  );
  const layout = linksLayout(map.size, Math.min(560, Math.max(280, width)), longest);
  const special = useMemo(() => shown.tokens.map(isSpecial), [shown.tokens]);
  const { buffer, byteOffset, length } = map.values;
  const drawn = useMemo(() => linksShown(map, scale.most * share), [buffer, byteOffset, length, scale.most, share]);
  const [top, setTop] = useState(0);
  const height = Math.min(layout.height, Math.round(window.innerHeight * TALL));
  const part = { top: Math.min(top, layout.height - height), height };
  const options = { theme, focus, most: scale.most, special, signed: shown.signed };
  const picture = useMemo(
    () => linksPicture(map, drawn, shown.names, layout, options, part),
    [drawn, shown.names, layout.width, layout.left, height, part.top, theme, focus?.row, focus?.side, special],
  );
  const pointed = (event: { offsetX: number; offsetY: number }): Focus | null => {
    const row = rowAt(layout, event.offsetY + part.top, map.size);
    if (row === null) return null;
    return { row, side: event.offsetX > (layout.left + layout.right) / 2 ? "to" : "from" };
  };
  const pin = (row: number) => {
    state.token.value = state.token.value === row ? null : row;
    state.word.value = shown.tokens[row]?.word ?? state.word.value;
  };
  return (
    <section class="links" aria-label="Links between tokens">
      <div class="columns" aria-hidden="true">
        <span style={{ width: `${layout.left}px` }}>who looks</span>
        <span style={{ marginLeft: `${layout.right - layout.left}px` }}>what it looks at</span>
      </div>
      <div
        class="scroller"
        ref={ref}
        style={{ maxHeight: `${height + 2}px` }}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <div class="layers" style={{ height: `${layout.height}px` }}>
          <Drawn
            picture={picture}
            label={`Links of ${map.size} tokens; the buttons before it name each`}
            onPointerMove={(event: PointerEvent) => onPoint(pointed(event))}
            onPointerLeave={() => onPoint(null)}
            onClick={(event: MouseEvent) => {
              const at = pointed(event);
              if (at) pin(at.row);
            }}
          />
          <RowButtons shown={shown} layout={layout} pinned={pinned} onPoint={onPoint} onPin={pin} />
        </div>
      </div>
      <label class="slider">
        <span>Hide links below {percent(share)} of the strongest</span>
        <input
          type="range"
          min={0}
          max={0.6}
          step={0.02}
          value={share}
          onInput={(event) => setShare(Number(event.currentTarget.value))}
        />
      </label>
      {map.size > DENSE ? (
        <p class="muted">
          A long text: at most the {MOST.toLocaleString("en")} strongest links are drawn. Point at a token for all of
          its own.
        </p>
      ) : null}
    </section>
  );
}

interface RowButtonsProps {
  shown: ShownMap;
  layout: { row: number; left: number };
  pinned: number | null;
  onPoint: (focus: Focus | null) => void;
  onPin: (row: number) => void;
}

/** Buttons over the names of the left column, for the keyboard and for who hears the page. */
function RowButtons({ shown, layout, pinned, onPoint, onPin }: RowButtonsProps) {
  const [at, setAt] = useState(0);
  const map = shown.map!;
  const current = Math.min(at, map.size - 1);
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const next = rowAfter(event.key, current, map.size);
    if (next === null) return;
    event.preventDefault();
    setAt(next);
    event.currentTarget.querySelectorAll<HTMLElement>("button")[next]?.focus();
  };
  // Hundreds of buttons stay the same while one points at tokens.
  const buttons = useMemo(
    () =>
      shown.names.slice(0, map.size).map((name, i) => (
        <button
          key={i}
          type="button"
          tabIndex={i === current ? 0 : -1}
          aria-pressed={pinned === i}
          aria-label={`${visible(name, 40)}, token ${i + 1}`}
          style={{ height: `${layout.row}px`, width: `${layout.left}px` }}
          onFocus={() => {
            setAt(i);
            onPoint({ row: i, side: "from" });
          }}
          onBlur={() => onPoint(null)}
          onPointerEnter={() => onPoint({ row: i, side: "from" })}
          onPointerLeave={() => onPoint(null)}
          onClick={() => onPin(i)}
        />
      )),
    [shown.names, map.size, current, pinned, layout.row, layout.left, shown.tokens],
  );
  return (
    <div class="rows" role="group" aria-label="Tokens that look; arrow keys move" onKeyDown={move}>
      {buttons}
    </div>
  );
}

/** The next row for a key of the keyboard; null for other keys. */
export function rowAfter(key: string, row: number, size: number): number | null {
  const to = { ArrowDown: row + 1, ArrowUp: row - 1, Home: 0, End: size - 1, PageDown: row + 10, PageUp: row - 10 }[
    key
  ];
  return to === undefined ? null : Math.max(0, Math.min(size - 1, to));
}
