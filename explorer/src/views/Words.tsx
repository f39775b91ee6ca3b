/** The view of words: every method's scores as coloured words, the deletion curve, and words that can be erased or replaced. */
import { useId, useRef, useState } from "preact/hooks";
import {
  modelOf,
  type Shown,
  showOf,
  useApp,
  useExport,
  useInput,
  useReply,
  useSettled,
  useTheme,
  useWidth,
} from "../context";
import { csvOf } from "../draw/csv";
import { curvePicture, deletionLines } from "../draw/curve";
import { minus } from "../draw/difference";
import { percent, visible, wordsIn } from "../draw/text";
import { type ScoredRow, wordsPicture } from "../draw/wordsPicture";
import { Coloured } from "../panels/Coloured";
import { Drawn, Failure, Progress } from "../panels/parts";
import { type DeletionData, type Input, keyOf, type MethodInfo, type WordsData } from "../protocol";

/** How long a text must stay as it is before slow methods begin. */
const SLOW = 400;
const CURVE = 500;

export function WordsView() {
  const app = useApp();
  const { state, hello } = app;
  const group = useId();
  const rows = useRef(new Map<string, readonly number[]>());
  const show = showOf(state);
  const model = modelOf(app, show === "b" ? "b" : "a");
  const a = useInput("a");
  const b = useInput("b");
  const words = a ? wordsIn(a.text, a.pair) : [];
  useExport({
    name: "words",
    picture: (theme) => wordsPicture(words, scored(rows.current), 760, theme),
    csv: () => wordsCsv(words, scored(rows.current)),
  });
  if (!model) return <p class="empty">Scores of words need a model: open one with conoscope explore MODEL.</p>;
  if (!a) return <p class="empty">Type a text on the left: its words are scored here.</p>;
  const reason = show === "diff" ? whyNoDifference(a, b) : null;
  const editable = app.host.live && show !== "b";
  return (
    <div class="view">
      <Legend difference={show === "diff"} editable={editable} classifies={model.classifies} />
      {reason ? <Failure line={reason} /> : null}
      <div class="words-view">
        <div class="methods">
          {ordered(hello.methods).map((method) => (
            <MethodRow
              key={method.name}
              method={method}
              a={a}
              b={b}
              rows={rows.current}
              editable={editable}
              impossible={reason !== null}
              group={group}
            />
          ))}
        </div>
        {model.classifies ? <Deletion input={(show === "b" ? b : null) ?? a} side={show === "b" ? "b" : "a"} /> : null}
      </div>
    </div>
  );
}

/** The methods, chance last: it is what the others are held against. */
function ordered(methods: readonly MethodInfo[]): MethodInfo[] {
  return [...methods.filter(({ name }) => name !== "random"), ...methods.filter(({ name }) => name === "random")];
}

function scored(rows: ReadonlyMap<string, readonly number[]>): ScoredRow[] {
  return [...rows].map(([method, scores]) => ({ method, scores }));
}

function whyNoDifference(a: Input, b: Input | null): string | null {
  if (!b) return null;
  const [one, other] = [wordsIn(a.text, a.pair).length, wordsIn(b.text, b.pair).length];
  if (one === other) return null;
  return `B − A needs as many words in both texts: A has ${one}, B has ${other}. Show A or B instead.`;
}

function Legend({ difference, editable, classifies }: { difference: boolean; editable: boolean; classifies: boolean }) {
  const [more, less] = difference
    ? ["more in B than in A", "less in B than in A"]
    : classifies
      ? ["for the answer; of attention: much looked at", "against the answer"]
      : ["much looked at or taken", "below zero"];
  return (
    <p class="reading">
      Orange <span class="swatch for" />: {more}. Blue <span class="swatch against" />: {less}. The darker, the nearer
      to the method's largest score.
      {editable ? " Click a word to erase it; right-click or hold it to replace it, and see the answer move." : ""}
    </p>
  );
}

interface MethodRowProps {
  method: MethodInfo;
  a: Input;
  b: Input | null;
  rows: Map<string, readonly number[]>;
  editable: boolean;
  impossible: boolean;
  group: string;
}

/** The scores of a side; those of slow methods are asked for once the text has stayed as it is. */
function useScores(input: Input | null, method: MethodInfo, side: "a" | "b"): Shown<WordsData> & { waits: boolean } {
  const key = input ? keyOf("words", input) : "";
  const settled = useSettled(input, key, method.slow ? SLOW : 0);
  const current = !method.slow || (settled !== null && keyOf("words", settled) === key);
  const asked = current ? input : null;
  const shown = useReply<WordsData>("words", asked && { ...asked, method: method.name }, {
    lane: `words:${side}:${method.name}`,
    drop: method.slow,
  });
  return { ...shown, waits: input !== null && !current };
}

function MethodRow({ method, a, b, rows, editable, impossible, group }: MethodRowProps) {
  const { state, hello } = useApp();
  const show = showOf(state);
  const one = useScores(show === "b" ? null : a, method, "a");
  const other = useScores(show === "a" ? null : b, method, "b");
  const shown = show === "b" ? other : one;
  const input = show === "b" ? (b ?? a) : a;
  const words = wordsIn(input.text, input.pair);
  const found = scoresOf(show, one, other);
  // Scores of the text before the last key would lie on wrong words.
  const scores = found?.length === words.length ? found : null;
  if (scores) rows.set(method.name, [...scores]);
  else rows.delete(method.name);
  const chosen = state.method.value === method.name;
  const loading = [one, other].some(({ status, waits }) => status === "loading" || waits);
  const error = one.error ?? other.error;
  const about = shown.reply?.data.about || method.about;
  return (
    <section class={chosen ? "method chosen" : "method"}>
      <h3>
        <label>
          <input
            type="radio"
            name={group}
            checked={chosen}
            onChange={() => {
              state.method.value = method.name;
            }}
          />
          {method.name.replaceAll("_", " ")}
        </label>
        <span class="muted" title={visible(about, 300)}>
          {visible(about, 200)}
        </span>
        {loading ? <Progress what={method.slow ? "slow method" : ""} share={one.progress ?? other.progress} /> : null}
      </h3>
      {error && !impossible ? <p class="muted">{error}</p> : null}
      {!error && !impossible ? (
        <Coloured
          words={words}
          scores={scores}
          edits={input.edits}
          editable={editable}
          stale={loading}
          label={method.name}
          limit={hello.limits.characters}
        />
      ) : null}
    </section>
  );
}

function scoresOf(
  show: "a" | "b" | "diff",
  a: Shown<WordsData>,
  b: Shown<WordsData>,
): (ArrayLike<number> & Iterable<number>) | null {
  const [one, other] = [a.reply?.arrays.scores?.values, b.reply?.arrays.scores?.values];
  if (show === "a") return one ?? null;
  if (show === "b") return other ?? null;
  return one && other ? minus(other, one) : null;
}

/** The probability of the answer as the words are erased, those of the chosen method first. */
function Deletion({ input, side }: { input: Input; side: "a" | "b" }) {
  const { state } = useApp();
  const theme = useTheme();
  const [ref, width] = useWidth<HTMLElement>(480);
  const [at, setAt] = useState<number | null>(null);
  const params = { ...input, method: state.method.value };
  const settled = useSettled(params, keyOf("deletion", params), CURVE);
  const current = keyOf("deletion", settled) === keyOf("deletion", params);
  const shown = useReply<DeletionData>("deletion", current ? params : null, { lane: `deletion:${side}`, drop: true });
  const curve = shown.reply?.arrays.curve?.values;
  const chance = shown.reply?.arrays.chance?.values;
  const name = `by ${state.method.value.replaceAll("_", " ")}`;
  const drawn = curve ? deletionLines(curve, chance, name) : [];
  return (
    <section class="deletion" ref={ref}>
      <h3>Erasing words, the highest scores first</h3>
      <p class="muted">
        The probability of the answer. A good method falls sooner than erasing words by chance; if both fall alike, its
        scores say little about this answer.
      </p>
      {curve ? (
        <>
          <Drawn
            picture={curvePicture(drawn, Math.min(560, width), 180, theme, at)}
            label={`From ${percent(curve[0])} with all words to ${percent(curve[curve.length - 1])} without any`}
            onPointerMove={(event: PointerEvent) =>
              setAt(stepAt(event.offsetX, Math.min(560, width), curve.length - 1))
            }
            onPointerLeave={() => setAt(null)}
          />
          <p class="legend">
            {drawn.map((line) => (
              <span key={line.name} class={line.dashed ? "key dashed" : "key"}>
                {line.name}
              </span>
            ))}
          </p>
          <CurveReadout
            at={at}
            order={shown.reply?.data.order ?? []}
            curve={curve}
            chance={chance}
            words={wordsIn(input.text, input.pair)}
          />
        </>
      ) : shown.error ? (
        <Failure line={shown.error} retry={shown.retry} />
      ) : (
        <Progress what="Erasing words" share={shown.progress} />
      )}
    </section>
  );
}

/** The number of words erased at a place of the curve. */
export function stepAt(x: number, width: number, count: number): number {
  const share = (x - 44) / Math.max(1, width - 12 - 44);
  return Math.max(0, Math.min(count, Math.round(share * count)));
}

interface CurveReadoutProps {
  at: number | null;
  order: readonly number[];
  curve: ArrayLike<number>;
  chance: ArrayLike<number> | undefined;
  words: readonly string[];
}

function CurveReadout({ at, order, curve, chance, words }: CurveReadoutProps) {
  const k = at ?? Math.min(1, curve.length - 1);
  const erased = order.slice(0, k).map((word) => visible(words[word] ?? "", 16));
  const list = erased.length > 6 ? `${erased.slice(0, 6).join(", ")} …` : erased.join(", ");
  const byChance = chance ? `, by chance ${percent(chance[k])}` : "";
  return (
    <p class="readout" aria-live="polite">
      <bdi>
        Without {k} {k === 1 ? "word" : "words"}
        {list ? ` (${list})` : ""}: {percent(curve[k])}
        {byChance}
      </bdi>
    </p>
  );
}

function wordsCsv(words: readonly string[], rows: readonly ScoredRow[]): string {
  const lines = rows.flatMap(({ method, scores }) => words.map((word, i) => [method, i, word, scores[i]]));
  return csvOf(["method", "word", "text", "score"], lines);
}
