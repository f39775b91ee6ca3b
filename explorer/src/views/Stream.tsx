/** The view Stream: the path of a text to its answer, as parts that sum to a difference of two logits. */
import { colourOf } from "../cones/colours";
import { modelOf, type Side, showOf, useApp, useExport, useInput, useReply, useRun, useTheme } from "../context";
import { shortName, visible } from "../draw/text";
import type { Input, TokenInfo } from "../protocol";
import { HeadMap } from "../stream/HeadMap";
import { Lines } from "../stream/Lines";
import type { Series } from "../stream/layers";
import { partsCsv } from "../stream/saved";
import {
  isTurned,
  minus,
  partsOf,
  rows,
  type StreamData,
  type StreamReply,
  signed,
  turnOf,
  values,
} from "../stream/steps";
import { Tokens } from "../stream/Tokens";
import { Waterfall } from "../stream/Waterfall";

export function StreamView() {
  const app = useApp();
  const show = showOf(app.state);
  const [a, b] = [useStream("a", null), useStream("b", null)];
  const pair = useStream(
    "b",
    show === "diff" && a.reply && b.reply && turnOf(a.reply.data, b.reply.data) === null ? a.reply.data : null,
  );
  if (!app.hello.models.length)
    return <p class="empty">The stream is that of a text through a model: open a model too.</p>;
  if (show === "a") return <OneSide side="a" stream={a} />;
  if (show === "b") return <OneSide side="b" stream={b} />;
  if (!a.reply || !b.reply) return <OneSide side={a.reply ? "b" : "a"} stream={a.reply ? b : a} />;
  return (
    <Difference a={a.reply} b={turnOf(a.reply.data, b.reply.data) === null && pair.reply ? pair.reply : b.reply} />
  );
}

type Asked = ReturnType<typeof useStream>;

/** The stream of a side; `like` asks for the difference of the same two classes as another's. */
function useStream(side: Side, like: StreamData | null) {
  const app = useApp();
  const input = useInput(side);
  const splits = modelOf(app, side)?.attributes !== false;
  const params: (Input & { class?: number; other?: number }) | null =
    input && splits ? (like ? { ...input, class: like.class, other: like.other } : input) : null;
  const reply = useReply<StreamData>("stream", params, { lane: `stream:${side}${like ? ":like" : ""}` });
  return { ...reply, splits, asked: input !== null };
}

function OneSide({ side, stream }: { side: Side; stream: Asked }) {
  const run = useRun(side);
  const { reply, error, splits, asked } = stream;
  if (!asked) {
    return <p class="empty">{side === "b" ? "Choose a text or a model for B first." : "Type a text first."}</p>;
  }
  if (!splits) return <Unsplit reason="The answer of this model cannot be split into parts." side={side} />;
  if (error) return <Unsplit reason={error} side={side} />;
  if (!reply) return <p class="empty">Splitting the answer …</p>;
  return <Path name={side.toUpperCase()} reply={reply} tokens={run.reply?.data.tokens ?? []} busy={stream.stale} />;
}

/** Why there is no split, as the library says it. */
function Unsplit({ reason, side }: { reason: string; side: Side }) {
  const app = useApp();
  const model = modelOf(app, side);
  const notes = model?.notes ?? [];
  const two = app.hello.models.length > 1;
  return (
    <div class="empty" role="status">
      <p>
        {two && model ? (
          <>
            <bdi>{shortName(model.name, 60)}</bdi>:{" "}
          </>
        ) : null}
        {reason}
      </p>
      {notes.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
      {two ? <p class="muted">Another model can be chosen above, or show {side === "a" ? "B" : "A"} alone.</p> : null}
    </div>
  );
}

function Path({ name, reply, tokens, busy }: { name: string; reply: StreamReply; tokens: TokenInfo[]; busy: boolean }) {
  const dark = useTheme().dark;
  const parts = partsOf(reply);
  useExport({ name: "stream", csv: () => partsCsv(parts) });
  const [first, second] = classNames(reply.data);
  const turned = isTurned(reply.data);
  return (
    <section class={turned ? "stream-view turned" : "stream-view"} aria-label="Stream" aria-busy={busy}>
      <div class="stream">
        <p class="stream-lead">
          Text {name}: the logit of <strong>{first}</strong> minus that of <strong>{second}</strong> is{" "}
          <strong>{signed(parts.total)}</strong>. Everything that the model adds up to it, in the order of computation;
          above 0 speaks for {first}. What could not be split is the rest, <strong>{signed(parts.rest)}</strong>.
        </p>
        <div class="stream-two">
          <Waterfall title={`From embeddings to ${first} minus ${second}`} parts={parts} up={first} down={second} />
          <div class="stream-side">
            <HeadMap title="What each head adds" heads={parts.heads} dark={dark} turned={turned} />
            <Towards reply={reply} dark={dark} />
          </div>
        </div>
        <Tokens
          title="What the heads took from each token, with its own embedding"
          tokens={tokens}
          amounts={values(reply.arrays.tokens)}
          dark={dark}
          turned={turned}
        />
      </div>
    </section>
  );
}

function Difference({ a, b }: { a: StreamReply; b: StreamReply }) {
  const dark = useTheme().dark;
  const turn = turnOf(a.data, b.data);
  const [first, second] = classNames(a.data);
  const turned = isTurned(a.data);
  const [ofA, ofB] = [partsOf(a), partsOf(b, turn ?? 1)];
  const parts = minus(ofB, ofA);
  useExport({ name: "stream-difference", csv: () => partsCsv(parts) });
  if (turn === null) {
    return (
      <p class="empty">
        A is split between {first} and {second}, B between {classNames(b.data).join(" and ")}: their parts cannot be
        subtracted. Look at A and at B.
      </p>
    );
  }
  const sameShape = ofA.heads.length === ofB.heads.length;
  return (
    <section class={turned ? "stream-view turned" : "stream-view"} aria-label="Stream, B minus A">
      <div class="stream">
        <p class="stream-lead">
          B − A: the logit of <strong>{first}</strong> minus that of <strong>{second}</strong> is {signed(ofA.total)} in
          A and {signed(ofB.total)} in B, <strong>{signed(parts.total)}</strong> in between.
          {sameShape
            ? ""
            : " The models have different numbers of layers: only layers of the same number are compared."}
        </p>
        <div class="stream-two">
          <Waterfall
            title="B minus A, part by part"
            parts={parts}
            up={`B more for ${first}`}
            down={`B more for ${second}`}
          />
          <div class="stream-side">
            <HeadMap title="What each head adds, B minus A" heads={parts.heads} dark={dark} turned={turned} />
            <Towards reply={a} other={b} dark={dark} />
          </div>
        </div>
      </div>
    </section>
  );
}

/** Cosines with the classes' directions, where a result knows them. */
function Towards({ reply, other, dark }: { reply: StreamReply; other?: StreamReply; dark: boolean }) {
  const { state } = useApp();
  const series = other
    ? [...seriesOf(reply, reply.data, dark, "A "), ...seriesOf(other, reply.data, dark, "B ", true)]
    : seriesOf(reply, reply.data, dark, "");
  const columns = Array.from({ length: series[0]?.values.length ?? 0 }, (_, layer) => layer);
  if (!series.some((line) => line.values.some((value) => value !== null))) {
    return (
      <p class="muted">
        No result that is open knows the directions of these classes: measure class_cones, and open its folder beside
        the model.
      </p>
    );
  }
  return (
    <Lines
      title="Cosine of the classified vector with each class's direction, by layer (0: embeddings)"
      series={series}
      columns={columns}
      format={(value) => value.toFixed(2).replace("-", "−")}
      span={0.1}
      within={[-1, 1]}
      level={0}
      marked={Math.min(state.layer.value, columns.length - 1)}
      onColumn={(layer) => {
        if (layer >= 1) state.layer.value = layer;
      }}
    />
  );
}

/** Of more than two classes blue is for the answer and orange for the class that it is held against; others follow. */
function rankOf(order: StreamData, c: number): number {
  if (c === order.class) return 0;
  if (c === order.other) return 1;
  return c + 2 - Number(c > order.class) - Number(c > order.other);
}

function seriesOf(
  { data, arrays }: StreamReply,
  order: StreamData,
  dark: boolean,
  before: string,
  dashed = false,
): Series[] {
  const matrix = rows(arrays.towards);
  const classes = matrix[0]?.length ?? 0;
  return Array.from({ length: classes }, (_, c) => ({
    name: `${before}${data.labels[c] ?? c}`,
    colour: colourOf(order.labels.length === 2 ? c : rankOf(order, c), dark),
    dashed,
    values: matrix.map((row) => (Number.isFinite(row[c]) ? row[c]! : null)),
  }));
}

function classNames(data: StreamData): [string, string] {
  return [
    visible(data.labels[data.class] ?? String(data.class)),
    visible(data.labels[data.other] ?? String(data.other)),
  ];
}
