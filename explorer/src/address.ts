/** Keeps the state and the fragment of the page's address the same. */
import { effect } from "@preact/signals";
import { readFragment, type State, writeFragment } from "./state";

/** Browsers refuse more than some ten entries a second. */
const WAIT = 150;
/** Changes that follow each other faster than this are one step back. */
const STEP = 1000;

/** Reads the fragment into the state, then follows changes on both sides until the returned function is called. */
export function followFragment(state: State, page: Window): () => void {
  readFragment(state, page.location.hash);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let place = placeOf(state);
  let pushed = 0;
  const write = () => {
    const fragment = writeFragment(state);
    const current = page.location.hash.replace(/^#/, "");
    const now = placeOf(state);
    if (fragment === current) return;
    const url = fragment ? `#${fragment}` : `${page.location.pathname}${page.location.search}`;
    const newStep = now !== place && Date.now() - pushed > STEP && current !== "";
    if (newStep) {
      page.history.pushState(null, "", url);
      pushed = Date.now();
    } else page.history.replaceState(null, "", url);
    place = now;
  };
  const stop = effect(() => {
    writeFragment(state);
    clearTimeout(timer);
    timer = setTimeout(write, WAIT);
  });
  const read = () => {
    clearTimeout(timer);
    readFragment(state, page.location.hash);
    place = placeOf(state);
  };
  page.addEventListener("popstate", read);
  page.addEventListener("hashchange", read);
  return () => {
    stop();
    clearTimeout(timer);
    page.removeEventListener("popstate", read);
    page.removeEventListener("hashchange", read);
  };
}

/** What makes a step of the history: where one is, not what one types or points at. */
function placeOf(state: State): string {
  const { tab, model, modelB, show, layer, head, map, grid, result, site } = state;
  return JSON.stringify([tab, model, modelB, show, layer, head, map, grid, result, site].map((key) => key.peek()));
}
