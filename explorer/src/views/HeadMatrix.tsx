/** The matrix of a head: a row for each token that looks, a column for each that is looked at. */
import { useMemo } from "preact/hooks";
import { useApp, useTheme, useWidth } from "../context";
import { cellAt, matrixLayout, matrixPicture, matrixPixels } from "../draw/maps";
import type { Scale } from "../draw/scale";
import { Drawn } from "../panels/parts";
import type { ShownMap } from "../sides";

interface MatrixProps {
  shown: ShownMap;
  scale: Scale;
  row: number | null;
  cell: { row: number; column: number } | null;
  onCell: (cell: { row: number; column: number } | null) => void;
}

export function Matrix({ shown, scale, row, cell, onCell }: MatrixProps) {
  const theme = useTheme();
  const { state } = useApp();
  const [ref, width] = useWidth<HTMLElement>(340);
  const map = shown.map!;
  const layout = matrixLayout(map.size, Math.min(width, 460));
  const marks = { row: cell?.row ?? row, column: cell?.column ?? null };
  const { buffer, byteOffset, length } = map.values;
  // A long text has a quarter of a million cells, which stay the same while one points at them.
  const pixels = useMemo(
    () => matrixPixels(map, scale, layout),
    [buffer, byteOffset, length, scale.most, scale.signed, layout.side],
  );
  const picture = useMemo(
    () => matrixPicture(pixels, shown.names, layout, theme, marks),
    [pixels, shown.names, layout.margin, layout.cell, theme, marks.row, marks.column],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const next = cellAfter(event.key, cell ?? { row: row ?? 0, column: 0 }, map.size);
    if (event.key === "Escape") onCell(null);
    if (!next) return;
    event.preventDefault();
    onCell(next);
  };
  return (
    <figure class="matrix" ref={ref}>
      <Drawn
        picture={picture}
        label={`The map as a matrix of ${map.size} rows that look and ${map.size} columns that are looked at; arrow keys read its cells`}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerMove={(event: PointerEvent) => onCell(cellAt(layout, event.offsetX, event.offsetY))}
        onPointerLeave={() => onCell(null)}
        onBlur={() => onCell(null)}
        onClick={(event: MouseEvent) => {
          const at = cellAt(layout, event.offsetX, event.offsetY);
          if (at) state.token.value = state.token.value === at.row ? null : at.row;
        }}
      />
    </figure>
  );
}

/** The cell that an arrow key goes to; null for other keys. */
export function cellAfter(key: string, { row, column }: { row: number; column: number }, size: number) {
  const steps: Record<string, [number, number]> = {
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    ArrowRight: [0, 1],
    ArrowLeft: [0, -1],
  };
  const step = steps[key];
  const inside = (place: number) => Math.max(0, Math.min(size - 1, place));
  return step ? { row: inside(row + step[0]), column: inside(column + step[1]) } : null;
}
