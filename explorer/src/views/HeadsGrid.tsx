/** The grid of heads: a picture with a button on each cell, its legend, and the heads with the most. */
import { useMemo } from "preact/hooks";
import { isAblated, selectHead } from "../actions";
import { useApp, useExport, useTheme, useWidth } from "../context";
import type { Theme } from "../draw/colour";
import { csvOf } from "../draw/csv";
import { GATE_LOOKS, GATES, kindsIn } from "../draw/gates";
import { type Cell, cornerOf, type GridLayout, gridLayout, gridPicture, valueAt } from "../draw/heads";
import { withScale } from "../draw/legend";
import { strongest } from "../draw/maps";
import { evenScale, largest, type Scale, signedScale } from "../draw/scale";
import { percent } from "../draw/text";
import type { GridOption } from "../gridOptions";
import { Drawn, ScaleLegend } from "../panels/parts";
import type { Tensor } from "../protocol";

/** How many layers, and how many heads each of them has. */
export interface Shape {
  layers: number;
  heads: number[];
}

/** What stands above and below the grid, so that all layers are seen at once. */
const CHROME = 250;

interface GridProps {
  option: GridOption;
  shape: Shape;
  values: Tensor | undefined;
  signed: boolean;
  stale: boolean;
  /** What the cells are made of: while it stays the same, so does the picture. */
  of: readonly [unknown, unknown, unknown];
  cellOf: (layer: number, head: number) => Cell;
  textOf: (layer: number, head: number) => string;
  /** What each number would be if every token looked at all alike. */
  even?: number | null;
}

export function Grid({ option, shape, values, signed, stale, of, cellOf, textOf, even = null }: GridProps) {
  const { state } = useApp();
  const theme = useTheme();
  const [ref, width] = useWidth<HTMLDivElement>(640);
  const heads = Math.max(0, ...shape.heads);
  const layout = gridLayout(shape.layers, heads, width, window.innerHeight - CHROME);
  const scale = gridScale(values, signed);
  const marks = {
    layer: Math.min(state.layer.value, shape.layers),
    head: Math.min(state.head.value, heads),
    ablated:
      option.of === "text" ? (state.edits.value.ablate ?? []).filter(([l, h]) => l <= shape.layers && h <= heads) : [],
  };
  const pictureFor = (at: GridLayout, look: Theme) => gridPicture(at, cellOf, scale, look, marks);
  const drawn = useMemo(
    () => gridPicture(layout, cellOf, scale, theme, { ...marks, layer: 0, head: 0 }),
    [...of, option.value, signed, layout.cell, layout.width, layout.height, theme, JSON.stringify(marks.ablated)],
  );
  useExport({
    name: `heads-${option.value}`,
    picture: (look) => {
      const whole = pictureFor(gridLayout(shape.layers, heads, heads * 60), look);
      return values ? withScale(whole, scale, option.name, look) : whole;
    },
    csv: () => gridCsv(shape, values, textOf),
  });
  if (!shape.layers) return <p class="empty">This result has no numbers of heads for this; choose another.</p>;
  return (
    <>
      <div class={stale ? "grid stale" : "grid"} ref={ref}>
        <div class="layers">
          <Drawn picture={drawn} label={`${option.name} of ${shape.layers} layers of ${heads} heads`} />
          <HeadButtons layout={layout} shape={shape} textOf={textOf} />
        </div>
      </div>
      <p class="muted axes">Rows are layers, columns are heads.</p>
      {option.kind === "gate" ? <GateLegend shape={shape} cellOf={cellOf} /> : null}
      {option.kind === "value" ? <ScaleLegend scale={scale} name={option.name} /> : null}
      {values ? <Most values={values} shape={shape} textOf={textOf} /> : null}
      {even === null ? null : (
        <p class="muted">If every token looked at all alike, it would be {percent(even)} in this text.</p>
      )}
    </>
  );
}

/** The heads with the largest numbers, which a reader most often looks for. */
function Most({ values, shape, textOf }: { values: Tensor; shape: Shape; textOf: GridProps["textOf"] }) {
  const { state } = useApp();
  const heads = strongest(values.values, 4).map(
    (i) => [Math.floor(i / values.shape[1]!) + 1, (i % values.shape[1]!) + 1] as const,
  );
  const known = heads.filter(([layer, head]) => head <= (shape.heads[layer - 1] ?? 0));
  return (
    <p class="most">
      The most:{" "}
      {known.map(([layer, head]) => (
        <button key={`${layer}.${head}`} type="button" onClick={() => selectHead(state, layer, head)}>
          head {layer}.{head}: {textOf(layer, head)}
        </button>
      ))}
    </p>
  );
}

/** Shares, entropies and cosines are all within 1, so the same number has the same colour in every text and model. */
function gridScale(values: Tensor | undefined, signed: boolean): Scale {
  if (!values) return evenScale(1);
  if (signed) return signedScale(largest(values.values));
  return values.values.some((value) => value < 0) ? signedScale(1) : evenScale(1);
}

interface HeadButtonsProps {
  layout: GridLayout;
  shape: Shape;
  textOf: (layer: number, head: number) => string;
}

/** A button on each cell, so that the grid is walked with arrow keys and read aloud. */
function HeadButtons({ layout, shape, textOf }: HeadButtonsProps) {
  const { state } = useApp();
  const layer = Math.min(state.layer.value, shape.layers);
  const head = Math.min(state.head.value, shape.heads[layer - 1] ?? 1);
  const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const next = headAfter(event.key, layer, head, shape);
    if (event.key === "Enter") {
      event.preventDefault();
      state.tab.value = "head";
    }
    if (!next) return;
    event.preventDefault();
    selectHead(state, ...next);
    event.currentTarget.querySelector<HTMLElement>(`[data-head="${next[0]}.${next[1]}"]`)?.focus();
  };
  const cells = shape.heads.flatMap((count, l) => Array.from({ length: count }, (_, h) => [l + 1, h + 1] as const));
  return (
    <div class="cells" role="group" aria-label="Heads; arrow keys move, Enter opens, x takes out" onKeyDown={onKeyDown}>
      {cells.map(([l, h]) => {
        const [x, y] = cornerOf(layout, l, h);
        const text = textOf(l, h);
        const out = isAblated(state.edits.value, l, h) ? ", taken out" : "";
        return (
          <button
            key={`${l}.${h}`}
            type="button"
            data-head={`${l}.${h}`}
            tabIndex={l === layer && h === head ? 0 : -1}
            aria-pressed={l === layer && h === head}
            aria-label={`layer ${l}, head ${h}${text ? `: ${text}` : ""}${out}`}
            title={`${l}.${h} ${text}${out}`}
            style={{ left: `${x}px`, top: `${y}px`, width: `${layout.cell}px`, height: `${layout.cell}px` }}
            onClick={() => selectHead(state, l, h)}
            onDblClick={() => {
              state.tab.value = "head";
            }}
          />
        );
      })}
    </div>
  );
}

/** The head that a key goes to; null for other keys. */
export function headAfter(key: string, layer: number, head: number, shape: Shape): [number, number] | null {
  const to: Record<string, [number, number]> = {
    ArrowRight: [layer, head + 1],
    ArrowLeft: [layer, head - 1],
    ArrowDown: [layer + 1, head],
    ArrowUp: [layer - 1, head],
    Home: [layer, 1],
    End: [layer, Number.POSITIVE_INFINITY],
  };
  const next = to[key];
  if (!next) return null;
  const row = Math.max(1, Math.min(shape.layers, next[0]));
  return [row, Math.max(1, Math.min(shape.heads[row - 1] ?? 1, next[1]))];
}

function GateLegend({ shape, cellOf }: { shape: Shape; cellOf: GridProps["cellOf"] }) {
  const counts = new Map<string, number>();
  shape.heads.forEach((count, l) => {
    for (let h = 1; h <= count; h++) {
      const cell = cellOf(l + 1, h);
      const kinds = cell.kind === "gate" ? kindsIn(cell.name) : [];
      for (const kind of kinds.length ? kinds : ["mixed"]) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
  });
  return (
    <ul class="gates">
      {[...GATES, "mixed" as const].map((gate) => (
        <li key={gate}>
          <Swatch colour={GATE_LOOKS[gate].colour} />
          <span>
            <b>
              {GATE_LOOKS[gate].letter} {gate}
            </b>{" "}
            {GATE_LOOKS[gate].about} ({counts.get(gate) ?? 0})
          </span>
        </li>
      ))}
    </ul>
  );
}

function Swatch({ colour }: { colour: string }) {
  return <span class="swatch" style={{ background: colour }} />;
}

function gridCsv(shape: Shape, values: Tensor | undefined, textOf: GridProps["textOf"]): string {
  const rows = shape.heads.flatMap((count, l) =>
    Array.from({ length: count }, (_, h) => [
      l + 1,
      h + 1,
      values ? valueAt(values, l + 1, h + 1) : textOf(l + 1, h + 1),
    ]),
  );
  return csvOf(["layer", "head", "value"], rows);
}
