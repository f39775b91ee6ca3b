/** Keys that work anywhere on the page but where one types. */
import { selectHead, toggleAblated } from "./actions";
import { type App, modelOf, showOf } from "./context";
import { MAPS, SHOWS, TABS } from "./state";

export const KEYS: readonly { keys: string; does: string }[] = [
  { keys: "1 … 5", does: "the views Head, Words, Heads, Cones, Stream" },
  { keys: "[ and ]", does: "the head before and after" },
  { keys: "{ and }", does: "the layer before and after" },
  { keys: "m", does: "weights, what is passed on, with residual and norm" },
  { keys: "x", does: "take the selected head out, or put it back" },
  { keys: "d", does: "A, B, B − A" },
  { keys: "u", does: "take all changes back" },
  { keys: "/", does: "go to the text" },
  { keys: "?", does: "this list" },
  { keys: "arrows", does: "in tabs, tokens, words, matrix and grid: the next one; Enter chooses" },
  { keys: "r", does: "on a word: replace it" },
  { keys: "Esc", does: "close, or select nothing" },
];

/** Does what a key stands for; false where it stands for nothing. */
export function act(app: App, key: string): boolean {
  const { state } = app;
  const tab = /^[1-5]$/.test(key) ? TABS[Number(key) - 1] : undefined;
  if (tab) state.tab.value = tab;
  else if (key === "[") stepHead(app, -1);
  else if (key === "]") stepHead(app, 1);
  else if (key === "{") stepLayer(app, -1);
  else if (key === "}") stepLayer(app, 1);
  else if (key === "m") stepMap(app);
  else if (key === "x" && app.host.live) toggleAblated(state, state.layer.value, state.head.value);
  else if (key === "d") state.show.value = SHOWS[(SHOWS.indexOf(showOf(state)) + 1) % SHOWS.length]!;
  else if (key === "u") state.edits.value = {};
  else {
    // Escape also closes dialogs and leaves full screens, so it is never taken.
    if (key === "Escape") {
      state.token.value = null;
      state.word.value = null;
    }
    return false;
  }
  return true;
}

/** The next head, over the ends of layers. */
function stepHead(app: App, by: number): void {
  const { layer, head } = app.state;
  const heads = modelOf(app, "a")?.heads ?? [];
  const next = head.value + by;
  if (next >= 1 && next <= (heads[layer.value - 1] ?? 0)) head.value = next;
  else if (next < 1 && layer.value > 1) selectHead(app.state, layer.value - 1, heads[layer.value - 2] ?? 1);
  else if (next > 1 && layer.value < heads.length) selectHead(app.state, layer.value + 1, 1);
}

function stepLayer(app: App, by: number): void {
  const { layer, head } = app.state;
  const heads = modelOf(app, "a")?.heads ?? [];
  const next = layer.value + by;
  if (next >= 1 && next <= heads.length) selectHead(app.state, next, Math.min(head.value, heads[next - 1] ?? 1));
}

function stepMap(app: App): void {
  const offered = MAPS.filter((map) => modelOf(app, "a")?.maps.includes(map));
  const { map } = app.state;
  if (offered.length) map.value = offered[(offered.indexOf(map.value) + 1) % offered.length]!;
}

/** Moves the focus among the buttons of a list by arrows, Home and End, so that Tab passes the list in one step. */
export function walk(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
  const now = buttons.indexOf(event.target as HTMLElement);
  const places: Record<string, number> = {
    ArrowLeft: now - 1,
    ArrowUp: now - 1,
    ArrowRight: now + 1,
    ArrowDown: now + 1,
    Home: 0,
    End: buttons.length - 1,
  };
  const place = places[event.key];
  if (now < 0 || place === undefined) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, place))]?.focus();
}

/** Whether a key goes to what is focused: something typed into, or a choice that has keys of its own. */
export function takesKeys(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}
