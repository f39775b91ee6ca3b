/** Words on their colours; each can be erased with a click and replaced from a small menu. */
import { useEffect, useRef, useState } from "preact/hooks";
import { replaceWord, toggleErased } from "../actions";
import { useApp, useTheme } from "../context";
import { css, inkOn, wordColour } from "../draw/colour";
import { figure, visible } from "../draw/text";
import { mostOf } from "../draw/wordsPicture";
import type { Edits } from "../protocol";

interface ColouredProps {
  words: readonly string[];
  scores: ArrayLike<number> | null;
  edits: Edits;
  editable: boolean;
  stale: boolean;
  label: string;
  limit: number;
}

/** How many words are shown: all, or of long texts those that a model reads or a reader changed. */
export function shownWords(count: number, tokens: number, scores: ArrayLike<number> | null, edits: Edits): number {
  const read = scores ? Array.from(scores).findLastIndex(Number.isFinite) : -1;
  const edited = Math.max(-1, ...(edits.erase ?? []), ...Object.keys(edits.replace ?? {}).map(Number));
  return Math.min(count, Math.max(tokens, read + 1, edited + 1));
}

/** How long a finger rests on a word until its menu opens. */
const HOLD = 500;

export function Coloured({ words, scores, edits, editable, stale, label, limit }: ColouredProps) {
  const { state, hello } = useApp();
  const [at, setAt] = useState(0);
  const [menu, setMenu] = useState<number | null>(null);
  const root = useRef<HTMLDivElement>(null);
  const most = scores ? mostOf(scores) : 0;
  const shown = shownWords(words.length, hello.limits.tokens, scores, edits);
  const current = Math.min(at, shown - 1);
  const focus = (i: number) => root.current?.querySelectorAll<HTMLElement>("button.word")[i]?.focus();
  const onKeyDown = (event: KeyboardEvent) => {
    if (menu !== null) return;
    const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: shown - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      focus(Math.max(0, Math.min(shown - 1, to)));
    } else if (editable && event.key === "r" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      setMenu(current);
    }
  };
  const close = (back: boolean) => {
    if (back && menu !== null) focus(menu);
    setMenu(null);
  };
  return (
    <div
      class={stale ? "words stale" : "words"}
      ref={root}
      role="group"
      aria-label={`Words scored by ${label}`}
      onKeyDown={onKeyDown}
    >
      {words.slice(0, shown).map((word, i) => (
        <span class="place" key={i}>
          <Word
            text={word}
            score={scores ? (scores[i] ?? Number.NaN) : null}
            most={most}
            erased={edits.erase?.includes(i) ?? false}
            by={edits.replace?.[String(i)]}
            reachable={i === current}
            editable={editable}
            onFocus={() => {
              setAt(i);
              state.word.value = i;
            }}
            onErase={() => toggleErased(state, i)}
            onMenu={() => setMenu(i)}
          />
          {menu === i ? <WordMenu word={i} text={word} edits={edits} limit={limit} onClose={close} /> : null}
        </span>
      ))}
      {shown < words.length ? (
        <span class="muted">
          and {(words.length - shown).toLocaleString("en")} more words, beyond the {hello.limits.tokens} tokens that are
          read
        </span>
      ) : null}
    </div>
  );
}

interface WordProps {
  text: string;
  score: number | null;
  most: number;
  erased: boolean;
  by: string | undefined;
  reachable: boolean;
  editable: boolean;
  onFocus: () => void;
  onErase: () => void;
  onMenu: () => void;
}

function Word({ text, score, most, erased, by, reachable, editable, onFocus, onErase, onMenu }: WordProps) {
  const theme = useTheme();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const held = useRef(false);
  const ground = wordColour(score === null || most === 0 ? Number.NaN : score / most, theme);
  const shown = visible(text, 40);
  const what = erased
    ? "erased"
    : by !== undefined
      ? `replaced by ${visible(by, 40)}`
      : score === null
        ? ""
        : figure(score);
  const stop = () => clearTimeout(timer.current);
  return (
    <button
      type="button"
      class={erased ? "word erased" : "word"}
      tabIndex={reachable ? 0 : -1}
      aria-pressed={editable ? erased : undefined}
      aria-label={`${shown}${what ? `: ${what}` : ""}`}
      title={what}
      style={{ background: css(ground), color: inkOn(ground) }}
      onFocus={onFocus}
      onPointerDown={(event) => {
        held.current = false;
        if (!editable || event.pointerType === "mouse") return;
        timer.current = setTimeout(() => {
          held.current = true;
          onMenu();
        }, HOLD);
      }}
      onPointerUp={stop}
      onPointerLeave={stop}
      onPointerCancel={stop}
      onContextMenu={(event) => {
        if (!editable) return;
        event.preventDefault();
        onMenu();
      }}
      onClick={(event) => {
        if (!editable || held.current) return;
        if (event.altKey) onMenu();
        else onErase();
      }}
    >
      <bdi>{shown}</bdi>
      {by === undefined ? null : <bdi class="by"> {visible(by, 40)}</bdi>}
    </button>
  );
}

interface WordMenuProps {
  word: number;
  text: string;
  edits: Edits;
  limit: number;
  onClose: (back: boolean) => void;
}

/** The small menu of a word: another text for it, or nothing in its place. */
export function WordMenu({ word, text, edits, limit, onClose }: WordMenuProps) {
  const { state } = useApp();
  const ref = useRef<HTMLFormElement>(null);
  const erased = edits.erase?.includes(word) ?? false;
  const changed = erased || edits.replace?.[String(word)] !== undefined;
  const [draft, setDraft] = useState(edits.replace?.[String(word)] ?? "");
  useEffect(() => {
    ref.current?.querySelector("input")?.focus();
    const outside = (event: PointerEvent) => {
      if (!ref.current?.contains(event.target as Node)) onClose(false);
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [onClose]);
  const finish = (action: () => void) => {
    action();
    onClose(true);
  };
  return (
    <form
      class="menu"
      ref={ref}
      aria-label={`Change the word ${visible(text, 40)}`}
      onSubmit={(event) => {
        event.preventDefault();
        finish(() => replaceWord(state, word, draft));
      }}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Escape") onClose(true);
      }}
    >
      <label>
        Instead of “{visible(text, 20)}”
        <input
          type="text"
          value={draft}
          maxLength={Math.min(limit, 200)}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setDraft(event.currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button type="submit">Replace</button>
        {erased ? null : (
          <button type="button" onClick={() => finish(() => toggleErased(state, word))}>
            Erase
          </button>
        )}
        {changed ? (
          <button type="button" onClick={() => finish(() => replaceWord(state, word, ""))}>
            As it was
          </button>
        ) : null}
        <button type="button" onClick={() => onClose(true)}>
          Close
        </button>
      </div>
    </form>
  );
}
