/** A part that is folded away, and made only once it is opened: tables of many rows cost time in every frame. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface FoldedProps {
  summary: ComponentChildren;
  class?: string;
  children: () => ComponentChildren;
}

export function Folded({ summary, class: name, children }: FoldedProps) {
  const [open, setOpen] = useState(false);
  return (
    <details class={name} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {open ? children() : null}
    </details>
  );
}
