/** Puts the explorer into an element, whatever the host. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { followFragment } from "./address";
import { App } from "./app";
import { AppContext, type Exportable } from "./context";
import { visible } from "./draw/text";
import type { Host } from "./hosts/host";
import type { Hello } from "./protocol";
import { compareTwo, settle } from "./settle";
import { createState } from "./state";
import { Store } from "./store";

export interface MountOptions {
  /** Whether the state is kept in the address of the page. */
  address?: boolean;
}

/** How often the page asks what was measured in the background, in milliseconds. */
const REFRESH = 1500;

/** Shows the explorer in the element; returns what takes it away again. */
export function mount(element: HTMLElement, host: Host, options: MountOptions = {}): () => void {
  const state = createState();
  const chosen = options.address ? window.location.hash.length > 1 : false;
  const unfollow = options.address ? followFragment(state, window) : () => {};
  element.classList.add("conoscope-explorer");
  const store = new Store(host);
  const exportable = signal<Exportable | null>(null);
  let ended = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = (hello: Hello) => {
    if (ended) return;
    render(
      <AppContext.Provider value={{ host, store, state, hello, exportable }}>
        <App />
      </AppContext.Provider>,
      element,
    );
    if (hello.filling && host.live) timer = setTimeout(refresh, REFRESH, hello);
  };
  // While the library measures in the background, it says more each time.
  const refresh = (old: Hello) => {
    host.hello().then(
      (hello) => {
        if (tablesOf(hello) !== tablesOf(old)) store.forgetErrors();
        // What was answered in the middle of a task is of fewer texts than there are at its end.
        if (hello.filling?.doing !== old.filling?.doing) store.forgetGrowing();
        show(hello);
      },
      () => {},
    );
  };
  const onProgress = (_share: number, doing: string) => {
    if (!ended) render(<Opening doing={doing} />, element);
  };
  render(<Opening doing="" />, element);
  host.hello({ onProgress }).then(
    (hello) => {
      settle(state, hello);
      if (host.live && !chosen) compareTwo(state, hello);
      show(hello);
    },
    (error: unknown) => {
      if (!ended) render(<Failed line={error instanceof Error ? error.message : String(error)} />, element);
    },
  );
  return () => {
    ended = true;
    clearTimeout(timer);
    unfollow();
    render(null, element);
  };
}

/** What results have so far, to be compared. */
function tablesOf({ results }: Hello): string {
  return results.map(({ tables }) => tables.length).join(" ");
}

function Opening({ doing }: { doing: string }) {
  return (
    <p class="opening" role="status">
      {doing
        ? `Opening the model: ${visible(doing, 120)}…`
        : "Opening the model. This takes a few seconds the first time."}
    </p>
  );
}

function Failed({ line }: { line: string }) {
  return (
    <div class="opening" role="alert">
      <p>{line}</p>
      <button type="button" onClick={() => location.reload()}>
        Try again
      </button>
    </div>
  );
}
