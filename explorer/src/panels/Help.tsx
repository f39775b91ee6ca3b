/** What the page is for, and its keys. */
import { useEffect, useRef } from "preact/hooks";
import { KEYS } from "../keys";
import { TABS } from "../state";
import { TAB_NAMES, TAB_QUESTIONS } from "./Tabs";

export function Help({ onClose }: { onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal?.();
    return () => dialog?.close?.();
  }, []);
  return (
    <dialog class="helping" ref={ref} aria-label="Help" onClose={onClose}>
      <h2>Look at one model, live</h2>
      <p>
        Type a text on the left. All views follow: what is selected in one is selected in all, and the address holds it.
      </p>
      <dl>
        {TABS.map((tab) => (
          <div key={tab}>
            <dt>{TAB_NAMES[tab]}</dt>
            <dd>{TAB_QUESTIONS[tab]}</dd>
          </div>
        ))}
      </dl>
      <h3>Keys</h3>
      <dl>
        {KEYS.map(({ keys, does }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </dialog>
  );
}
