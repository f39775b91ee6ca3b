/** The tabs of the views. */
import type { TargetedKeyboardEvent } from "preact";
import { useApp } from "../context";
import { TABS, type Tab } from "../state";

export const TAB_NAMES: Record<Tab, string> = {
  head: "Head",
  words: "Words",
  heads: "Heads",
  cones: "Cones",
  stream: "Stream",
};

export const TAB_QUESTIONS: Record<Tab, string> = {
  head: "What does one head look at?",
  words: "Which words decide the answer?",
  heads: "What does each head do?",
  cones: "Where do the vectors of texts point?",
  stream: "Which parts make the answer?",
};

/** The next tab for a key of the keyboard; undefined for other keys. */
export function tabAfter(key: string, tab: Tab): Tab | undefined {
  const at = TABS.indexOf(tab);
  if (key === "ArrowRight") return TABS[(at + 1) % TABS.length];
  if (key === "ArrowLeft") return TABS[(at + TABS.length - 1) % TABS.length];
  if (key === "Home") return TABS[0];
  if (key === "End") return TABS.at(-1);
  return undefined;
}

export function Tabs({ id }: { id: string }) {
  const { state } = useApp();
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLElement>) => {
    const next = tabAfter(event.key, state.tab.value);
    if (!next) return;
    event.preventDefault();
    state.tab.value = next;
    event.currentTarget.querySelector<HTMLElement>(`[data-tab=${next}]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
      {TABS.map((tab) => {
        const chosen = state.tab.value === tab;
        return (
          <button
            key={tab}
            id={`${id}-tab-${tab}`}
            type="button"
            data-tab={tab}
            role="tab"
            aria-selected={chosen}
            aria-controls={`${id}-panel`}
            tabIndex={chosen ? 0 : -1}
            title={TAB_QUESTIONS[tab]}
            onClick={() => {
              state.tab.value = tab;
            }}
          >
            {TAB_NAMES[tab]}
          </button>
        );
      })}
    </div>
  );
}
