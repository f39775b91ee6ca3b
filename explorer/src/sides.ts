/** The maps and runs of both sides, and which of them is shown. */
import { modelOf, type Shown, type Side, showOf, useApp, useInput, useReply, useRun } from "./context";
import { bothNames, mapMinus, whyNot, whyNotHeads } from "./draw/difference";
import { mapIn, type SquareMap } from "./draw/maps";
import type { MapKind, RunData, TokenInfo } from "./protocol";

export interface Sides {
  a: Shown<RunData>;
  b: Shown<RunData>;
  show: "a" | "b" | "diff";
  /** Why there is no difference though one is asked for. */
  reason: string | null;
}

/** Both runs, and whether they can be taken from each other. */
export function useSides(): Sides {
  const app = useApp();
  const a = useRun("a");
  const b = useRun("b");
  const show = showOf(app.state);
  let reason: string | null = null;
  if (show === "diff" && a.reply && b.reply) {
    reason = whyNotHeads(modelOf(app, "a"), modelOf(app, "b")) ?? whyNot(a.reply.data, b.reply.data);
  }
  return { a, b, show, reason };
}

/** The run whose tokens are shown: that of B where B is shown, else that of A. */
export function shownRun(sides: Sides): Shown<RunData> {
  return sides.show === "b" ? sides.b : sides.a;
}

export interface ShownMap {
  map: SquareMap | null;
  /** True while the map is that of an older request. */
  stale: boolean;
  tokens: readonly TokenInfo[];
  names: string[];
  signed: boolean;
  waiting: Shown<unknown>;
}

/** The map of a side: from its run where that has all maps, else asked for alone. */
function useMapOf(
  side: Side,
  kind: MapKind,
  layer: number,
  head: number,
  wanted: boolean,
): [SquareMap | null, Shown<unknown>] {
  const input = useInput(side);
  const run = useRun(side);
  const own = mapIn(run.reply?.arrays[kind], layer, head);
  const absent = wanted && input !== null && run.status === "done" && !run.reply?.arrays[kind];
  const asked = useReply("head", absent ? { ...input, layer, head, map: kind } : null, { lane: `head:${side}` });
  if (own || !absent) return [own, run];
  return [
    mapIn(asked.reply?.arrays.map && { ...asked.reply.arrays.map, shape: [1, ...asked.reply.arrays.map.shape] }, 1, 1),
    asked,
  ];
}

/** The map of the head that is selected, of A, of B, or B minus A. */
export function useShownMap(sides: Sides, kind: MapKind, layer: number, head: number): ShownMap {
  const { show, reason } = sides;
  const [a, waitingA] = useMapOf("a", kind, layer, head, show !== "b");
  const [b, waitingB] = useMapOf("b", kind, layer, head, show !== "a");
  const tokensA = sides.a.reply?.data.tokens ?? [];
  const tokensB = sides.b.reply?.data.tokens ?? [];
  const names = (tokens: readonly TokenInfo[]) => tokens.map(({ text }) => text);
  const fitting = (map: SquareMap | null, tokens: readonly TokenInfo[]) => (map?.size === tokens.length ? map : null);
  const one = fitting(a, tokensA);
  const other = fitting(b, tokensB);
  const stale = (show !== "b" && waitingA.stale) || (show !== "a" && waitingB.stale);
  if (show === "a")
    return { map: one, stale, tokens: tokensA, names: names(tokensA), signed: false, waiting: waitingA };
  if (show === "b")
    return { map: other, stale, tokens: tokensB, names: names(tokensB), signed: false, waiting: waitingB };
  const both = tokensA.map(({ text }, i) => bothNames(text, tokensB[i]?.text ?? text));
  const map = one && other && reason === null ? mapMinus(other, one) : null;
  const waiting = waitingA.status === "done" ? waitingB : waitingA;
  return { map, stale, tokens: tokensA, names: both, signed: true, waiting };
}
