/** The page: texts on the left, the views in the middle, the numbers of what is selected on the right. */
import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useId, useRef, useState } from "preact/hooks";
import { type App as AppParts, useApp } from "./context";
import { visible } from "./draw/text";
import { StaticHost } from "./hosts/static";
import { act, takesKeys } from "./keys";
import { Bar } from "./panels/Bar";
import { CorpusPanel } from "./panels/Corpus";
import { Help } from "./panels/Help";
import { Inspector } from "./panels/Inspector";
import { Failure } from "./panels/parts";
import { Tabs } from "./panels/Tabs";
import { Texts } from "./panels/Texts";
import type { Tab } from "./state";
import { ConesView } from "./views/Cones";
import { HeadView } from "./views/Head";
import { HeadsView } from "./views/Heads";
import { StreamView } from "./views/Stream";
import { WordsView } from "./views/Words";

const VIEWS: Record<Tab, ComponentType> = {
  head: HeadView,
  words: WordsView,
  heads: HeadsView,
  cones: ConesView,
  stream: StreamView,
};

export function App() {
  const app = useApp();
  const id = useId();
  const root = useRef<HTMLDivElement>(null);
  const [help, setHelp] = useState(false);
  const tab = app.state.tab.value;
  useKeys(app, root, () => setHelp(true));
  return (
    <div class="page" ref={root}>
      <Bar onHelp={() => setHelp(true)} />
      <Notes />
      <div class="layout">
        <aside class="left" aria-label="Texts">
          <Texts />
          <CorpusPanel />
        </aside>
        <main class="centre">
          <Tabs id={id} />
          <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${tab}`}>
            <Guarded key={tab} view={VIEWS[tab]} />
          </div>
        </main>
        <aside class="right" aria-label="What is selected">
          <Inspector />
        </aside>
      </div>
      {help ? <Help onClose={() => setHelp(false)} /> : null}
    </div>
  );
}

/** A view whose fault stays its own. */
function Guarded({ view: View }: { view: ComponentType }) {
  const [error, reset] = useErrorBoundary((fault) => console.error(fault));
  if (error)
    return (
      <Failure
        line={`This view cannot show that: ${error instanceof Error ? error.message : String(error)}.`}
        retry={reset}
      />
    );
  return <View />;
}

function useKeys(app: AppParts, root: { current: HTMLElement | null }, onHelp: () => void): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      // In a notebook keys belong to its cells, unless the focus is in here.
      const within = root.current?.contains(event.target as Node);
      if (app.host.kind === "notebook" && !within) return;
      // While the help is open, keys are its own.
      if (root.current?.querySelector("dialog[open]")) return;
      if (takesKeys(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      if (event.key === "?") onHelp();
      else if (event.key === "/") root.current?.querySelector("textarea")?.focus();
      else if (!act(app, event.key)) return;
      event.preventDefault();
      if (app.host.kind === "notebook") event.stopPropagation();
    };
    const target = app.host.kind === "notebook" ? root.current : document;
    target?.addEventListener("keydown", listen as EventListener);
    return () => target?.removeEventListener("keydown", listen as EventListener);
  }, [app, root, onHelp]);
}

/** What a reader must know before the rest: what a static page left out, and what is said of the model. */
function Notes() {
  const { hello, host, state } = useApp();
  const left =
    host instanceof StaticHost
      ? [
          "A page without a model: what was computed when it was written can be seen, nothing can be changed.",
          ...host.notes,
        ]
      : [];
  const { filling } = hello;
  const notes = [...left, ...(hello.notes ?? []), ...(hello.models[state.model.value]?.notes ?? [])];
  if (!notes.length && !filling) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>{visible(note, 400)}</li>
      ))}
      {filling ? (
        <li class="progress" role="status">
          In the background: {visible(filling.doing, 120)}
          <progress max={filling.of || 1} value={filling.done} aria-label={visible(filling.doing, 120)} />
        </li>
      ) : null}
    </ul>
  );
}
