/** The tabs of the views. */
import { useApp } from "../context";
import { TABS } from "../state";

export function Tabs() {
  const { state } = useApp();
  return (
    <div role="tablist">
      {TABS.map((tab) => (
        <button
          key={tab}
          type="button"
          role="tab"
          aria-selected={state.tab.value === tab}
          onClick={() => {
            state.tab.value = tab;
          }}
        >
          {tab}
        </button>
      ))}
    </div>
  );
}
