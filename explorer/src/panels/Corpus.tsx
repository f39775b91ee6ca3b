/** The list of the corpus: search, filters, order; a row becomes text A or B. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { setPair, setText } from "../actions";
import { useApp } from "../context";
import { type CorpusRow, EVERYTHING, type Filter, narrows, SORTS, type Sort } from "../corpus/asked";
import { List } from "../corpus/List";
import { Pages } from "../corpus/pages";
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
  const { host, hello, state } = useApp();
  const [filter, setFilter] = useState<Filter>(EVERYTHING);
  const { pages, version } = usePages(filter, state.model.value);
  const { take, taken, failed } = useTaking();
  const known = useRef({ total: corpus.size, labels: corpus.labels });
  if (pages.total !== null) known.current = { total: pages.total, labels: pages.labels ?? corpus.labels };
  const { total, labels } = known.current;
  const change = (part: Partial<Filter>) => setFilter({ ...filter, ...part });
  return (
    <section class="corpus" aria-label="Corpus">
      <h2>
        <bdi>{visible(corpus.name, 40)}</bdi>
      </h2>
      {/* A page on disk has one page of its corpus: there is nothing to search. */}
      {host.live ? (
        <>
          <Search onQuery={(query) => query !== filter.query && change({ query })} />
          <Filters filter={filter} labels={labels} onChange={change} />
        </>
      ) : null}
      <p class="muted" role="status">
        {pages.error ?? (pages.total === null ? "Searching …" : foundLine(pages, filter, corpus.size))}
        {pages.total && hello.models.length && host.live ? " A row becomes text A, its button B text B." : ""}
      </p>
      {failed ? <p class="failure">{failed}</p> : null}
      <List
        pages={pages}
        version={version}
        total={pages.error ? 0 : total}
        labels={labels}
        onTake={take}
        taken={taken}
      />
    </section>
  );
}

/** How many texts there are, and what is still being found out about them. */
function foundLine({ total, filling }: Pages, filter: Filter, size: number): string {
  const several = (total ?? 0).toLocaleString("en");
  const count = narrows(filter) ? `${several} found` : `${several} texts`;
  const part = !narrows(filter) && !filling && (total ?? 0) < size ? ` of ${size.toLocaleString("en")}` : "";
  return `${count}${part}${filling ? `; still ${visible(filling.doing, 80)}` : ""}.`;
}

/** The pages of a filter; another filter or model is other pages. */
function usePages(filter: Filter, model: number): { pages: Pages; version: number } {
  const { host } = useApp();
  const [version, setVersion] = useState(0);
  const pages = useMemo(
    () => new Pages(host, filter, model, () => setVersion((before) => before + 1)),
    [host, filter, model],
  );
  useEffect(() => () => pages.end(), [pages]);
  return { pages, version };
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
    if (!hello.models.length || !host.live) return;
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
