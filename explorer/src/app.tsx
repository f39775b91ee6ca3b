/** The page: texts on the left, the views in the middle, the numbers of what is selected on the right. */
import type { ComponentType } from "preact";
import { useApp } from "./context";
import { CorpusPanel } from "./panels/Corpus";
import { Tabs } from "./panels/Tabs";
import type { Tab } from "./state";
import { ConesView } from "./views/Cones";
import { StreamView } from "./views/Stream";

const VIEWS: Partial<Record<Tab, ComponentType>> = {
  cones: ConesView,
  stream: StreamView,
};

export function App() {
  const { state } = useApp();
  const View = VIEWS[state.tab.value];
  return (
    <div class="layout">
      <aside class="left">
        <CorpusPanel />
      </aside>
      <main class="centre">
        <Tabs />
        {View ? <View /> : null}
      </main>
      <aside class="right" />
    </div>
  );
}
