/** The list of the corpus: search, filters, order; a row becomes text A or B. */
import { useEffect, useState } from "preact/hooks";
import { setPair, setText } from "../actions";
import { useApp } from "../context";
import { type CorpusRow, EVERYTHING, type Filter, narrows, SORTS, type Sort } from "../corpus/asked";
import { List } from "../corpus/List";
import { visible } from "../draw/text";
import { Cancelled } from "../protocol";

/** Typing is over when no key came for so many milliseconds. */
const PAUSE = 250;
const SORT_NAMES: Record<Sort, string> = {
  order: "as in the corpus",
  farthest: "farthest from its cone",
  margin: "least sure",
};

interface Example {
  text: string;
  pair: string | null;
}

export function CorpusPanel() {
  const { hello } = useApp();
  return hello.corpus ? <CorpusList corpus={hello.corpus} /> : null;
}

function CorpusList({ corpus }: { corpus: { name: string; size: number; labels: string[] } }) {
  const [filter, setFilter] = useState<Filter>(EVERYTHING);
  const [found, setFound] = useState<{ total: number; known: boolean }>({ total: corpus.size, known: false });
  const [error, setError] = useState<string | null>(null);
  const { take, taken, failed } = useTaking();
  const change = (part: Partial<Filter>) => {
    setFilter({ ...filter, ...part });
    setFound({ total: found.total, known: false });
  };
  const several = found.total.toLocaleString("en");
  return (
    <section class="corpus" aria-label="Corpus">
      <h2>
        <bdi>{visible(corpus.name, 40)}</bdi>
      </h2>
      <Search onQuery={(query) => query !== filter.query && change({ query })} />
      <Filters filter={filter} labels={corpus.labels} onChange={change} />
      <p class="muted" role="status">
        {error ?? (found.known ? `${several} ${narrows(filter) ? "found" : "texts"}` : "Searching …")}
        {hint(found.known && found.total > 0)}
      </p>
      {failed ? <p class="failure">{failed}</p> : null}
      <List
        filter={filter}
        total={error ? 0 : found.total}
        onTotal={(total, line) => {
          setError(line);
          if (total !== null) setFound({ total, known: true });
        }}
        onTake={take}
        taken={taken}
      />
    </section>
  );
}

function hint(some: boolean): string {
  return some ? ". A row becomes text A, its button B text B." : "";
}

function Search({ onQuery }: { onQuery: (query: string) => void }) {
  const [typed, setTyped] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => onQuery(typed), PAUSE);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search"
      placeholder="Search the texts"
      aria-label="Search the texts of the corpus"
      value={typed}
      maxLength={200}
      onInput={(event) => setTyped(event.currentTarget.value)}
    />
  );
}

interface FiltersProps {
  filter: Filter;
  labels: string[];
  onChange: (part: Partial<Filter>) => void;
}

function Filters({ filter, labels, onChange }: FiltersProps) {
  const classes = (
    <>
      <option value="">any</option>
      {labels.map((name, c) => (
        <option key={c} value={c}>
          {visible(name)}
        </option>
      ))}
    </>
  );
  const number = (value: string) => (value === "" ? null : Number(value));
  return (
    <div class="corpus-filters">
      <label>
        class{" "}
        <select value={filter.label ?? ""} onChange={(event) => onChange({ label: number(event.currentTarget.value) })}>
          {classes}
        </select>
      </label>
      <label>
        predicted{" "}
        <select
          value={filter.predicted ?? ""}
          onChange={(event) => onChange({ predicted: number(event.currentTarget.value) })}
        >
          {classes}
        </select>
      </label>
      <label>
        order{" "}
        <select value={filter.sort} onChange={(event) => onChange({ sort: event.currentTarget.value as Sort })}>
          {SORTS.map((sort) => (
            <option key={sort} value={sort}>
              {SORT_NAMES[sort]}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input
          type="checkbox"
          checked={filter.errors}
          onChange={(event) => onChange({ errors: event.currentTarget.checked })}
        />{" "}
        errors only
      </label>
    </div>
  );
}

/** Makes a row the text of a side: its whole text is read first. */
function useTaking() {
  const { host, state, hello } = useApp();
  const [taken, setTaken] = useState<{ a: number | null; b: number | null }>({ a: null, b: null });
  const [failed, setFailed] = useState<string | null>(null);
  const put = (side: "a" | "b", { text, pair }: Example) => {
    if (side === "a") {
      setText(state, text);
      setPair(state, pair);
    } else {
      state.other.value = text;
      state.otherPair.value = pair;
    }
  };
  const take = (row: CorpusRow, side: "a" | "b") => {
    if (!hello.models.length) return;
    host.request<Example>("example", { number: row.number }, { lane: "example:corpus" }).then(
      ({ data }) => {
        put(side, data);
        setFailed(null);
        setTaken((before) => ({ ...before, [side]: row.number }));
      },
      (error: unknown) => {
        if (!(error instanceof Cancelled)) setFailed(error instanceof Error ? error.message : String(error));
      },
    );
  };
  return { take, taken, failed };
}
