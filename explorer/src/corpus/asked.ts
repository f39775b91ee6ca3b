/** What the list asks of the corpus. */

export const SORTS = ["order", "farthest", "margin"] as const;
export type Sort = (typeof SORTS)[number];

export interface CorpusRow {
  number: number;
  id: string;
  text: string;
  label: number | null;
  predicted: number | null;
  probability: number | null;
  angle: number | null;
}

export interface CorpusData {
  total: number;
  rows: CorpusRow[];
  /** The names of the classes that `label` and `predicted` number. */
  labels?: string[];
  /** What is still read or computed in the background, so that the same page has more later. */
  filling?: { doing: string; done: number; of: number | null } | null;
}

export interface Filter {
  query: string;
  label: number | null;
  predicted: number | null;
  errors: boolean;
  sort: Sort;
}

export const EVERYTHING: Filter = { query: "", label: null, predicted: null, errors: false, sort: "order" };
/** As many as a page on disk has of its corpus. */
export const PAGE = 200;

/** The parameters of one page; what takes nothing away is left out, so that the first page is the one that a page on disk has. */
export function asked({ query, label, predicted, errors, sort }: Filter, page: number, model = 0) {
  const filter = {
    ...(label === null ? {} : { label }),
    ...(predicted === null ? {} : { predicted }),
    ...(errors ? { errors } : {}),
  };
  const words = query.trim();
  return {
    ...(words ? { query: words } : {}),
    ...(Object.keys(filter).length ? { filter } : {}),
    ...(sort === "order" ? {} : { sort }),
    ...(model ? { model } : {}),
    offset: page * PAGE,
    limit: PAGE,
  };
}

/** Whether the filter takes anything away. */
export function narrows({ query, label, predicted, errors }: Filter): boolean {
  return query.trim() !== "" || label !== null || predicted !== null || errors;
}

/** The name of a class; a dash where it is not known. */
export function nameOf(labels: string[], index: number | null): string {
  return index === null ? "–" : (labels[index] ?? String(index));
}
