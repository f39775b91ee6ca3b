/** The pages of a list that were fetched, kept while they are near, and asked again while the library still learns of its texts. */
import type { Host } from "../hosts/host";
import { Cancelled } from "../protocol";
import { asked, type CorpusData, type CorpusRow, type Filter, PAGE } from "./asked";

/** How many pages are kept, and after how long a page is asked again that may get more, in milliseconds. */
const KEPT = 24;
const AGAIN = 2000;

export class Pages {
  private readonly pages = new Map<number, CorpusData>();
  private readonly loading = new Map<number, AbortController>();
  private wanted: number[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;
  /** How many texts the filter leaves; null until the first page is there. */
  total: number | null = null;
  error: string | null = null;
  /** The names of the classes that rows number; null where the reply does not say. */
  labels: string[] | null = null;
  filling: CorpusData["filling"] = null;

  constructor(
    private readonly host: Host,
    readonly filter: Filter,
    private readonly model: number,
    private readonly changed: () => void,
  ) {}

  /** Fetches these pages where they are missing; what is on its way and no longer wanted is taken back. */
  want(numbers: number[]): void {
    this.wanted = numbers;
    for (const [number, abort] of this.loading) {
      if (numbers.includes(number)) continue;
      this.loading.delete(number);
      abort.abort();
    }
    for (const number of numbers) {
      if (!this.pages.has(number) && !this.loading.has(number)) this.fetch(number);
    }
  }

  /** The row at a place of the list; null while it is not there. */
  row(index: number): CorpusRow | null {
    return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE] ?? null;
  }

  private fetch(number: number): void {
    const abort = new AbortController();
    this.loading.set(number, abort);
    const params = asked(this.filter, number, this.model);
    this.host.request<CorpusData>("corpus", params, { signal: abort.signal }).then(
      ({ data }) => {
        if (this.loading.get(number) === abort) this.loading.delete(number);
        this.put(number, data);
      },
      (error: unknown) => {
        if (this.loading.get(number) === abort) this.loading.delete(number);
        if (this.ended || error instanceof Cancelled) return;
        this.error = error instanceof Error ? error.message : String(error);
        this.changed();
      },
    );
  }

  private put(number: number, data: CorpusData): void {
    if (this.ended) return;
    this.pages.delete(number);
    this.pages.set(number, data);
    for (const old of this.pages.keys()) {
      if (this.pages.size <= KEPT) break;
      if (!this.wanted.includes(old)) this.pages.delete(old);
    }
    // A page on disk has its first rows alone, whatever the corpus has.
    this.total = this.host.live ? data.total : Math.min(data.total, data.rows.length);
    this.error = null;
    this.labels = data.labels ?? null;
    this.filling = data.filling ?? null;
    if (this.filling && this.host.live) this.askAgain();
    this.changed();
  }

  private askAgain(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      // Pages out of sight are older than what is known now.
      for (const number of this.pages.keys()) if (!this.wanted.includes(number)) this.pages.delete(number);
      for (const number of this.wanted) if (!this.loading.has(number)) this.fetch(number);
    }, AGAIN);
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
    for (const abort of this.loading.values()) abort.abort();
    this.loading.clear();
  }
}
