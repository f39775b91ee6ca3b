/** What every part of the page has at hand, and hooks for the two sides A and B. */

import { type Signal, signal } from "@preact/signals";
import { createContext, type RefObject } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { DARK, LIGHT, type Theme } from "./draw/colour";
import type { Picture } from "./draw/paint";
import type { Host } from "./hosts/host";
import { type Edits, type Hello, type Input, keyOf, type ModelInfo, type Reply, type RunData } from "./protocol";
import { type Show, type State, withoutEmpty } from "./state";
import type { Loadable, Store } from "./store";

export interface App {
  host: Host;
  store: Store;
  state: State;
  hello: Hello;
  /** What the view that is open can be saved as. */
  exportable: Signal<Exportable | null>;
}

/** What a view offers for files: a picture (SVG, PNG) or a canvas of its own (PNG), and a table (CSV). */
export interface Exportable {
  name: string;
  picture?: (theme: Theme) => Picture | null;
  canvas?: () => HTMLCanvasElement | null;
  csv?: () => string;
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("no app around this component");
  return app;
}

export type Side = "a" | "b";

/** A request's reply as it is to be shown: while a newer one loads, the last one stays. */
export interface Shown<D> {
  reply: Reply<D> | null;
  /** True while `reply` is the answer of an older request. */
  stale: boolean;
  status: Loadable<D>["status"];
  error: string | null;
  progress: number | null;
  retry: () => void;
}

export interface Asking {
  lane?: string;
  /** Takes the request back when the part that asked goes or asks something else; for what is slow. */
  drop?: boolean;
}

/** Asks for a reply and follows it; with `params` null nothing is asked. */
export function useReply<D>(verb: string, params: object | null, asking: Asking = {}): Shown<D> {
  const { store } = useApp();
  const key = params === null ? null : keyOf(verb, params);
  const { value: generation } = store.generation;
  const asked = useMemo(
    () => (params === null ? null : store.ask<D>(verb, params, asking.lane)),
    [key, store, generation],
  );
  const last = useRef<Reply<D> | null>(null);
  useEffect(() => {
    if (params === null || !asking.drop) return;
    return () => store.drop(verb, params);
  }, [key, store]);
  const now: Loadable<D> = asked ? asked.value : { status: "idle" };
  if (now.status === "done") last.current = now.reply;
  if (params === null) last.current = null;
  return {
    reply: last.current,
    stale: now.status !== "done" && last.current !== null,
    status: now.status,
    error: now.status === "error" ? now.error : null,
    progress: now.status === "loading" ? now.progress : null,
    retry: () => {
      if (params === null) return;
      store.retry(verb, params);
      store.ask(verb, params, asking.lane);
    },
  };
}

/** What side A or B runs; null where B is not chosen or there is no text yet. */
export function inputOf(state: State, side: Side): Input | null {
  const text = state.text.value;
  if (side === "a") {
    return text.trim() === ""
      ? null
      : { model: state.model.value, text, pair: state.pair.value, edits: withoutEmpty(state.edits.value) };
  }
  const { other, otherPair, modelB } = state;
  if (other.value === null && modelB.value === null) return null;
  const input: Input = {
    model: modelB.value ?? state.model.value,
    text: other.value ?? text,
    pair: other.value === null ? state.pair.value : otherPair.value,
    edits: editsOfB(state),
  };
  return input.text.trim() === "" ? null : input;
}

/** The edits of A that mean the same in B: of words where the text is the same, of heads where the model is. */
function editsOfB(state: State): Edits {
  const { erase, replace, ablate, how, steer } = state.edits.value;
  const ofWords = state.other.value === null ? { erase: erase ?? [], replace: replace ?? {} } : {};
  const ofHeads =
    state.modelB.value === null ? { ablate: ablate ?? [], how: how ?? "zero", ...(steer ? { steer } : {}) } : {};
  return withoutEmpty({ ...ofWords, ...ofHeads });
}

/** The result that measured the model of a side: the chosen one if it did, else the first that did; null if none did. */
export function resultOf(app: App, side: Side): number | null {
  const { results, models } = app.hello;
  const { model, modelB, result } = app.state;
  if (!models.length) return results[result.value] ? result.value : null;
  const wanted = side === "b" ? (modelB.value ?? model.value) : model.value;
  if (results[result.value]?.model === wanted) return result.value;
  const found = results.findIndex((one) => one.model === wanted);
  return found < 0 ? null : found;
}

export function useInput(side: Side): Input | null {
  const { state, hello } = useApp();
  // Results alone have nothing to run a text with.
  return hello.models.length ? inputOf(state, side) : null;
}

/** What the model made of the text of a side. */
export function useRun(side: Side): Shown<RunData> {
  return useReply<RunData>("run", useInput(side), { lane: `run:${side}` });
}

/** The model of a side; null where nothing but results was opened. */
export function modelOf(app: App, side: Side): ModelInfo | null {
  const { model, modelB } = app.state;
  const index = side === "b" ? (modelB.value ?? model.value) : model.value;
  return app.hello.models[index] ?? null;
}

/** Offers what a view shows for files, as long as it is open. */
export function useExport(exportable: Exportable): void {
  const { exportable: offered } = useApp();
  useEffect(() => {
    offered.value = exportable;
  });
  useEffect(
    () => () => {
      offered.value = null;
    },
    [offered],
  );
}

const dark = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
const theme = signal<Theme>(dark?.matches ? DARK : LIGHT);
dark?.addEventListener("change", () => {
  theme.value = dark.matches ? DARK : LIGHT;
});

export function useTheme(): Theme {
  return theme.value;
}

/** The width of an element in pixels, followed; `initial` until it is known. */
export function useWidth<E extends HTMLElement>(initial: number): [RefObject<E | null>, number] {
  const ref = useRef<E>(null);
  const [width, setWidth] = useState(initial);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const read = () => setWidth(Math.floor(element.clientWidth) || initial);
    read();
    if (typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => observer.disconnect();
  }, [initial]);
  return [ref, width];
}

/** The value as it was once it has stayed the same for some time. */
export function useSettled<T>(value: T, key: string, wait: number): T {
  const [settled, setSettled] = useState({ value, key });
  useEffect(() => {
    const timer = setTimeout(() => setSettled({ value, key }), wait);
    return () => clearTimeout(timer);
  }, [key, wait]);
  return settled.key === key ? value : settled.value;
}

/** Whether B is chosen, and what is shown: A where there is no B. */
export function showOf(state: State): Show {
  const chosen = state.other.value !== null || state.modelB.value !== null;
  return chosen ? state.show.value : "a";
}
