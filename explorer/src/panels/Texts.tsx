/** The texts A and B: what can be typed, its tokens, and the answer. */
import { useEffect, useRef, useState } from "preact/hooks";
import { setPair, setText } from "../actions";
import { modelOf, type Side, useApp, useInput, useReply, useRun } from "../context";
import { isSpecial } from "../draw/maps";
import { percent, shortName, visible } from "../draw/text";
import { walk } from "../keys";
import type { AnswerData, RunData, TokenInfo } from "../protocol";
import { withoutEmpty } from "../state";
import { EditList } from "./EditList";
import { Waiting } from "./parts";

/** Keys that follow each other faster are one request. */
const WAIT = 60;

export function Texts() {
  const { state } = useApp();
  const two = state.other.value !== null || state.modelB.value !== null;
  return (
    <>
      <SidePanel side="a" two={two} />
      {two ? <SidePanel side="b" two={two} /> : null}
    </>
  );
}

function SidePanel({ side, two }: { side: Side; two: boolean }) {
  const app = useApp();
  const { state, hello } = app;
  const model = modelOf(app, side);
  const run = useRun(side);
  if (!model) return null;
  const same = side === "b" && state.other.value === null;
  const title = !two ? "Text" : side === "a" ? "A" : same ? `B: the same text, ${shortName(model.name, 32)}` : "B";
  return (
    <section class={`side side-${side}`} aria-label={two ? `Text ${side.toUpperCase()}` : "Text"}>
      <h2>{title}</h2>
      {same ? null : <TextBox side={side} />}
      {side === "a" && hello.texts.length > 1 ? <Beginnings /> : null}
      {model.classifies ? <Answer side={side} run={run.reply?.data ?? null} stale={run.stale} /> : <NoAnswer />}
      {side === "a" ? <EditList /> : null}
      <Tokens side={side} run={run.reply?.data ?? null} />
      <Waiting shown={run} what="Running the model" empty={run.reply ? null : "Type a text to begin."} />
    </section>
  );
}

function NoAnswer() {
  return (
    <p class="muted">This model has no classes, so there is no answer to show; heads and tokens are as in any other.</p>
  );
}

/** A text area that changes the state a little after the last key. */
function TextBox({ side }: { side: Side }) {
  const app = useApp();
  const { state } = app;
  const pairs = modelOf(app, side)?.pairs ?? false;
  const [text, pair] = side === "a" ? [state.text, state.pair] : [state.other, state.otherPair];
  const setOther = (value: string) => {
    state.other.value = value;
  };
  const setOtherPair = (value: string) => {
    state.otherPair.value = value || null;
  };
  return (
    <>
      <Typed
        label={pairs ? "First text" : `Text ${side.toUpperCase()}`}
        rows={4}
        value={text.value ?? ""}
        onChange={side === "a" ? (value) => setText(state, value) : setOther}
      />
      {pairs && (app.host.live || pair.value !== null) ? (
        <Typed
          label="Second text, for pairs"
          rows={1}
          value={pair.value ?? ""}
          onChange={side === "a" ? (value) => setPair(state, value || null) : setOtherPair}
        />
      ) : null}
    </>
  );
}

interface TypedProps {
  label: string;
  rows: number;
  value: string;
  onChange: (value: string) => void;
}

function Typed({ label, rows, value, onChange }: TypedProps) {
  const { hello, host } = useApp();
  const [draft, setDraft] = useState(value);
  const sent = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    // A text from elsewhere (a click, the address) replaces the draft; one's own comes back unchanged.
    if (value !== sent.current) {
      clearTimeout(timer.current);
      sent.current = value;
      setDraft(value);
    }
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onInput = (event: { currentTarget: HTMLTextAreaElement }) => {
    const typed = event.currentTarget.value;
    setDraft(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = typed;
      onChange(typed);
    }, WAIT);
  };
  return (
    <textarea
      aria-label={label}
      rows={rows}
      spellcheck={false}
      maxLength={hello.limits.characters}
      readOnly={!host.live}
      value={draft}
      placeholder={rows > 1 ? "Type a text" : "Second text, for pairs"}
      onInput={onInput}
    />
  );
}

/** Texts to begin with. */
function Beginnings() {
  const { hello, state } = useApp();
  const texts = hello.texts.map((item) => (typeof item === "string" ? { text: item, pair: null } : item));
  return (
    <label class="select beginnings">
      <span>Texts to try</span>
      <select
        value=""
        onChange={(event) => {
          const chosen = texts[Number(event.currentTarget.value)];
          if (!chosen || event.currentTarget.value === "") return;
          setText(state, chosen.text);
          setPair(state, chosen.pair ?? null);
        }}
      >
        <option value="">choose…</option>
        {texts.map(({ text }, i) => (
          <option key={i} value={String(i)}>
            {visible(text, 60)}
          </option>
        ))}
      </select>
    </label>
  );
}

const SHOWN_LABELS = 6;

/** The probabilities, and what they were without the edits. */
function Answer({ side, run, stale }: { side: Side; run: RunData | null; stale: boolean }) {
  const { state } = useApp();
  const [all, setAll] = useState(false);
  const input = useInput(side);
  const edited = input !== null && Object.keys(withoutEmpty(state.edits.value)).length > 0 && side === "a";
  const before = useReply<AnswerData>("answer", edited ? { ...input, edits: {} } : null, { lane: "answer:before" });
  if (!run) return null;
  const order = run.probabilities.map((_, i) => i).sort((a, b) => run.probabilities[b]! - run.probabilities[a]!);
  const shown =
    run.labels.length <= SHOWN_LABELS ? run.labels.map((_, i) => i) : order.slice(0, all ? undefined : SHOWN_LABELS);
  const past = edited ? before.reply?.data.probabilities : undefined;
  return (
    <div class={stale ? "answer stale" : "answer"}>
      <ul class="bars" aria-label="Probabilities of the classes">
        {shown.map((i) => (
          <Bar
            key={i}
            label={run.labels[i] ?? String(i)}
            value={run.probabilities[i] ?? Number.NaN}
            past={past?.[i]}
            chosen={run.predicted === i}
          />
        ))}
      </ul>
      {run.labels.length > SHOWN_LABELS ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Show the likeliest" : `Show all ${run.labels.length} classes`}
        </button>
      ) : null}
    </div>
  );
}

function Bar({
  label,
  value,
  past,
  chosen,
}: {
  label: string;
  value: number;
  past?: number | undefined;
  chosen: boolean;
}) {
  const moved = past !== undefined && Math.abs(past - value) >= 0.0005;
  return (
    <li class={chosen ? "chosen" : ""}>
      <bdi class="label" title={visible(label, 200)}>
        {visible(label, 28)}
      </bdi>
      <span class="number">{moved ? `${percent(past)} → ${percent(value)}` : percent(value)}</span>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width: `${(Number.isFinite(value) ? value : 0) * 100}%` }} />
        {moved ? <span class="past" style={{ left: `${past * 100}%` }} /> : null}
      </span>
    </li>
  );
}

/** The tokens; a click selects what the head and stream views show. */
function Tokens({ side, run }: { side: Side; run: RunData | null }) {
  const { state, hello } = useApp();
  if (!run) return null;
  const inOrder = state.token.value !== null && state.token.value < run.tokens.length ? state.token.value : 0;
  return (
    <details class="tokens" open={run.tokens.length <= 64}>
      <summary>
        {run.tokens.length} tokens{run.truncated ? `, cut at ${hello.limits.tokens}` : ""}
      </summary>
      <div class="chips" role="group" aria-label="Tokens; arrow keys move" onKeyDown={walk}>
        {run.tokens.map((token, i) => (
          <TokenChip
            key={i}
            token={token}
            chosen={state.token.value === i}
            inOrder={i === inOrder}
            place={run.place === i}
            onClick={() => {
              state.token.value = state.token.value === i ? null : i;
              state.word.value = side === "a" ? token.word : state.word.value;
            }}
          />
        ))}
      </div>
    </details>
  );
}

interface ChipProps {
  token: TokenInfo;
  chosen: boolean;
  /** Whether Tab comes here; arrows go to the others. */
  inOrder: boolean;
  place: boolean;
  onClick: () => void;
}

function TokenChip({ token, chosen, inOrder, place, onClick }: ChipProps) {
  const kind = isSpecial(token) ? " special" : "";
  const title = place ? "The class is read here" : isSpecial(token) ? "A token that the tokenizer adds" : undefined;
  return (
    <button
      type="button"
      class={`chip${kind}${place ? " place" : ""}`}
      aria-pressed={chosen}
      tabIndex={inOrder ? 0 : -1}
      title={title}
      onClick={onClick}
    >
      <bdi>{visible(token.text, 20) || "␣"}</bdi>
    </button>
  );
}
