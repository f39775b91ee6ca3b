/** The numbers of what is selected, how to read them, and ways to take them along. */
import { useState } from "preact/hooks";
import { isAblated, toggleAblated } from "../actions";
import { commandOf, pythonOf } from "../code";
import { modelOf, resultOf, showOf, useApp, useInput, useReply, useRun } from "../context";
import { GATE_LOOKS, kindsIn } from "../draw/gates";
import { valueAt } from "../draw/heads";
import { LOOKS, looksOf, mapIn } from "../draw/maps";
import { figure, percent, visible, wordsIn } from "../draw/text";
import { gateOf } from "../gridOptions";
import type { GridData, Reply, RunData, WordsData } from "../protocol";
import { copyText, saveCsv, savePng, saveSvg } from "../save";
import { PageFile } from "./PageFile";
import { Steer } from "./Steer";

export function Inspector() {
  const { state } = useApp();
  const tab = state.tab.value;
  return (
    <>
      {tab === "head" || tab === "heads" || tab === "stream" ? <HeadFacts /> : null}
      {tab === "words" ? <WordFacts /> : null}
      {tab === "cones" || state.edits.value.steer ? <Steer /> : null}
      <TakeAlong />
    </>
  );
}

interface Row {
  name: string;
  value: string;
  about?: string;
}

function Facts({ title, rows }: { title: string; rows: readonly Row[] }) {
  if (!rows.length) return null;
  return (
    <table class="facts">
      <caption>{title}</caption>
      <tbody>
        {rows.map(({ name, value, about }) => (
          <tr key={name}>
            <th scope="row" title={about}>
              {name}
            </th>
            <td>{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface HeadNumber {
  name: string;
  value: number;
  share?: boolean;
  about?: string;
}

/** The numbers of a head (from 1) that a text left. */
function numbersOf(reply: Reply<RunData>, layer: number, head: number): HeadNumber[] {
  const { arrays, data } = reply;
  const at = (array: string) => valueAt(arrays[array], layer, head);
  const weights = mapIn(arrays.weights, layer, head);
  const looks = weights ? looksOf(weights, data.tokens) : null;
  return [
    { name: "entropy", value: at("entropy"), about: "0: all on one token, 1: even" },
    { name: "SIM of keys", value: at("sim_key") },
    { name: "SIM of values", value: at("sim_value") },
    { name: "SIM of outputs", value: at("sim_context") },
    ...(looks ? LOOKS.map((look) => ({ name: `weight to ${LOOK_WORDS[look]}`, value: looks[look], share: true })) : []),
  ];
}

/** The numbers as rows; with those of B, both beside each other. */
function rowsOf(numbers: readonly HeadNumber[], others: readonly HeadNumber[] | null): Row[] {
  return numbers.map(({ name, value, share, about }) => {
    const text = share ? percent : figure;
    const other = others?.find((one) => one.name === name);
    return { name, value: other ? `${text(value)} → ${text(other.value)}` : text(value), ...(about ? { about } : {}) };
  });
}

function HeadFacts() {
  const app = useApp();
  const { state, host } = app;
  const show = showOf(state);
  const side = show === "b" ? "b" : "a";
  const model = modelOf(app, side);
  const { reply } = useRun(side);
  const other = useRun("b").reply;
  const layer = state.layer.value;
  const head = state.head.value;
  const gate = gateOf(reply?.data ?? null, layer, head);
  const both = show === "diff" && other ? numbersOf(other, layer, head) : null;
  const rows = reply ? rowsOf(numbersOf(reply, layer, head), both) : [];
  const two = state.other.value !== null || state.modelB.value !== null;
  const title = both ? "A → B" : two ? `in ${side.toUpperCase()}` : "in this text";
  const out = isAblated(state.edits.value, layer, head);
  return (
    <section aria-label="The head that is selected">
      <h2>
        Head {layer}.{head}{" "}
        <span class="muted">
          layer {layer}, head {head}
        </span>
      </h2>
      {gate !== null ? <GateLine gate={gate} /> : null}
      <Facts title={title} rows={rows} />
      <CorpusFacts layer={layer} head={head} />
      {host.live && model?.edits.context ? (
        <p class="buttons">
          <button type="button" aria-pressed={out} onClick={() => toggleAblated(state, layer, head)}>
            {out ? "Put this head back" : "Take this head out"}
          </button>
          <span class="muted">and see the answer move on the left</span>
        </p>
      ) : null}
      <details class="how">
        <summary>How to read these</summary>
        <p>
          Entropy says how evenly a head looks: near 0 each token looks at one other, near 1 at all alike. SIM is the
          mean cosine within the text: near 1 all vectors point one way, so that looking here or there makes little
          difference. A weight is not yet an effect: take the head out, or see ‖αf(x)‖, which is small where a token
          that is looked at has little to give.
        </p>
      </details>
    </section>
  );
}

const LOOK_WORDS = {
  previous: "the token before",
  next: "the token after",
  itself: "itself",
  first: "the first token",
  special: "special tokens",
} as const;

function GateLine({ gate }: { gate: string }) {
  const kinds = kindsIn(gate);
  const shown = kinds.length ? kinds : (["mixed"] as const);
  return (
    <ul class="gates">
      {shown.map((kind) => (
        <li key={kind}>
          <span class="swatch" style={{ background: GATE_LOOKS[kind].colour }} />
          <span>
            <b>{kind}</b>: {GATE_LOOKS[kind].about}
          </span>
        </li>
      ))}
    </ul>
  );
}

const OVER_CORPUS = [
  { what: "entropy", name: "entropy" },
  { what: "sim_key", name: "SIM of keys" },
  { what: "sim_value", name: "SIM of values" },
  { what: "sim_context", name: "SIM of outputs" },
  { what: "ablation", name: "effect of ablation" },
] as const;

/** The numbers of the head over the corpus of a result, with intervals and the number of items. */
function CorpusFacts({ layer, head }: { layer: number; head: number }) {
  const app = useApp();
  const result = resultOf(app, showOf(app.state) === "b" ? "b" : "a");
  const known = result === null ? undefined : app.hello.results[result];
  const ask = (what: string) => (known ? { result, what } : null);
  const replies = [
    useReply<GridData>("grid", ask(OVER_CORPUS[0].what)),
    useReply<GridData>("grid", ask(OVER_CORPUS[1].what)),
    useReply<GridData>("grid", ask(OVER_CORPUS[2].what)),
    useReply<GridData>("grid", ask(OVER_CORPUS[3].what)),
    useReply<GridData>("grid", ask(OVER_CORPUS[4].what)),
  ];
  if (!known) return null;
  const rows = OVER_CORPUS.flatMap(({ name }, i) => {
    const reply = replies[i]!.reply;
    const value = valueAt(reply?.arrays.value, layer, head);
    if (!reply || Number.isNaN(value)) return [];
    const bounds = [reply.arrays.low, reply.arrays.high].map((tensor) => valueAt(tensor, layer, head));
    const range = bounds.every(Number.isFinite) ? ` [${figure(bounds[0])}, ${figure(bounds[1])}]` : "";
    return [{ name, value: `${figure(value)}${range}`, about: visible(reply.data.about ?? "", 200) }];
  });
  const n = replies.map(({ reply }) => reply?.data.n).find((count) => typeof count === "number");
  const title = `over ${visible(known.corpus, 32)}${n === undefined ? "" : `, n = ${n}`}, [95 % interval]`;
  return <Facts title={title} rows={rows} />;
}

function WordFacts() {
  const app = useApp();
  const { state, hello } = app;
  const input = useInput(showOf(state) === "b" ? "b" : "a");
  const words = input ? wordsIn(input.text, input.pair) : [];
  const word = state.word.value;
  if (word === null || word >= words.length) {
    return (
      <section aria-label="The word that is selected">
        <h2>Words</h2>
        <p class="muted">Choose a word to see its score by each method, and its place among the others.</p>
        <HowWords />
      </section>
    );
  }
  return (
    <section aria-label="The word that is selected">
      <h2>
        <bdi>“{visible(words[word]!, 24)}”</bdi> <span class="muted">word {word + 1}</span>
      </h2>
      <table class="facts">
        <caption>score, and rank among {words.length} words</caption>
        <tbody>
          {hello.methods.map(({ name }) => (
            <WordScore key={name} method={name} word={word} />
          ))}
        </tbody>
      </table>
      <HowWords />
    </section>
  );
}

function HowWords() {
  return (
    <details class="how">
      <summary>How to read these</summary>
      <p>
        Methods answer different questions, and their numbers have different units, so only ranks compare. Attention and
        norms say what was looked at and taken; gradients say what would move the answer. Where methods disagree, trust
        the one whose deletion curve falls furthest below chance, or erase the word and look.
      </p>
    </details>
  );
}

/** The score of one word by a method, if the view has asked for it. */
function WordScore({ method, word }: { method: string; word: number }) {
  const { store, state } = useApp();
  const input = useInput(showOf(state) === "b" ? "b" : "a");
  const known = input ? store.peek<WordsData>("words", { ...input, method }) : null;
  const scores = known?.status === "done" ? known.reply.arrays.scores?.values : undefined;
  if (!scores) return null;
  const value = scores[word] ?? Number.NaN;
  const rank = Number.isNaN(value)
    ? "–"
    : 1 + Array.from(scores).filter((other) => Math.abs(other) > Math.abs(value)).length;
  return (
    <tr>
      <th scope="row">{method.replaceAll("_", " ")}</th>
      <td>{figure(value)}</td>
      <td class="muted">{rank}</td>
    </tr>
  );
}

/** Code, commands and files. */
function TakeAlong() {
  const app = useApp();
  const offered = app.exportable.value;
  return (
    <section aria-label="Copy and save">
      <h2>Copy and save</h2>
      <p class="buttons">
        <button
          type="button"
          disabled={!offered?.picture}
          title={offered?.picture ? undefined : "This view has no picture of lines and shapes"}
          onClick={() => offered && saveSvg(offered)}
        >
          SVG
        </button>
        <button
          type="button"
          disabled={!offered?.picture && !offered?.canvas}
          title={offered?.picture || offered?.canvas ? undefined : "This view has no picture"}
          onClick={() => offered && savePng(offered)}
        >
          PNG
        </button>
        <button type="button" disabled={!offered?.csv} onClick={() => offered && saveCsv(offered)}>
          CSV
        </button>
      </p>
      <PageFile />
      <Copied name="Copy as Python" text={pythonOf(app)} />
      <Copied name="Copy as command" text={commandOf(app)} />
    </section>
  );
}

function Copied({ name, text }: { name: string; text: string }) {
  const [done, setDone] = useState<string | null>(null);
  const copy = async () => {
    setDone((await copyText(text)) ? "Copied" : "Select the text and copy it");
    setTimeout(() => setDone(null), 2000);
  };
  return (
    <div class="code">
      <button type="button" onClick={copy}>
        {done ?? name}
      </button>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and without a mouse only what has the focus does. */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </div>
  );
}
