/** Puts the explorer into an element, whatever the host. */
import { render } from "preact";
import { followFragment } from "./address";
import { App } from "./app";
import { signal } from "@preact/signals";
import { AppContext, type Exportable } from "./context";
import type { Host } from "./hosts/host";
import type { Hello } from "./protocol";
import { settle } from "./settle";
import { createState } from "./state";
import { Store } from "./store";

export interface MountOptions {
  /** Whether the state is kept in the address of the page. */
  address?: boolean;
}

/** Shows the explorer in the element; returns what takes it away again. */
export function mount(element: HTMLElement, host: Host, options: MountOptions = {}): () => void {
  const state = createState();
  const unfollow = options.address ? followFragment(state, window) : () => {};
  element.classList.add("conoscope-explorer");
  let ended = false;
  const show = (hello: Hello) => {
    if (ended) return;
    settle(state, hello);
    const app = { host, store: new Store(host), state, hello, exportable: signal<Exportable | null>(null) };
    render(
      <AppContext.Provider value={app}>
        <App />
      </AppContext.Provider>,
      element,
    );
  };
  render(<Opening />, element);
  host.hello().then(show, (error: unknown) => {
    if (!ended) render(<Failed line={error instanceof Error ? error.message : String(error)} />, element);
  });
  return () => {
    ended = true;
    unfollow();
    render(null, element);
  };
}

function Opening() {
  return (
    <p class="opening" role="status">
      Opening the model. This takes a few seconds the first time.
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
