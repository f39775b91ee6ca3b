/** What each head adds to the difference, as cells of layers × heads; one cell is in the order of Tab, arrows move in it. */
import { useRef } from "preact/hooks";
import { useApp } from "../context";
import { shade } from "./shades";
import { largest, signed } from "./steps";

const MOVES: Record<string, [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

export function HeadMap({
  title,
  heads,
  dark,
  turned,
}: {
  title: string;
  heads: number[][];
  dark: boolean;
  turned: boolean;
}) {
  const { state } = useApp();
  const grid = useRef<HTMLTableElement>(null);
  const most = largest(heads.flat());
  const width = Math.max(0, ...heads.map((row) => row.length));
  const [layer, head] = [state.layer.value, state.head.value];
  const choose = (l: number, h: number) => {
    if (!Number.isFinite(heads[l - 1]?.[h - 1])) return;
    state.layer.value = l;
    state.head.value = h;
    grid.current?.querySelector<HTMLElement>(`[data-at="${l}-${h}"]`)?.focus();
  };
  const moved = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    choose(layer + move[0], head + move[1]);
  };
  return (
    <div class="head-map scrolled">
      <h3>{title}</h3>
      <table ref={grid} aria-label={title}>
        <thead>
          <tr>
            <td />
            {Array.from({ length: width }, (_, h) => (
              <th key={h} scope="col">
                {h + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {heads.map((row, l) => (
            <tr key={l}>
              <th scope="row">{l + 1}</th>
              {row.map((value, h) => {
                const chosen = layer === l + 1 && head === h + 1;
                if (!Number.isFinite(value)) return <td key={h} />;
                const label = `layer ${l + 1}, head ${h + 1}: ${signed(value, 3)}`;
                return (
                  <td key={h}>
                    <button
                      type="button"
                      data-at={`${l + 1}-${h + 1}`}
                      class={chosen ? "cell now" : "cell"}
                      tabIndex={chosen ? 0 : -1}
                      aria-pressed={chosen}
                      aria-label={label}
                      title={label}
                      style={{ backgroundColor: shade(turned ? -value : value, most, dark) }}
                      onClick={() => choose(l + 1, h + 1)}
                      onKeyDown={moved}
                    />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">
        Chosen: layer {layer}, head {head}, <strong>{signed(heads[layer - 1]?.[head - 1], 3)}</strong>. Rows are layers,
        columns are heads; the strongest colour is {most.toFixed(2)}.
      </p>
    </div>
  );
}
