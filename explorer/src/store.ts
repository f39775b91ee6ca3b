/** Replies by request: asked for once, kept while there is room, with what is loading and what failed. */
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Host } from "./hosts/host";
import { type Arrays, Cancelled, keyOf, type Reply } from "./protocol";

export type Loadable<D> =
  | { status: "idle" }
  | { status: "loading"; progress: number | null; doing: string }
  | { status: "done"; reply: Reply<D> }
  | { status: "error"; error: string };

/** Verbs whose answers grow while the library measures and predicts in the background. */
const GROWING = new Set(["cones", "grid", "mean_map", "place", "scores", "stream", "table"]);

interface Entry {
  verb: string;
  signal: Signal<Loadable<unknown>>;
  bytes: number;
  abort: AbortController;
}

const ROOM = 192 * 2 ** 20;
const MOST = 2000;

export class Store {
  private readonly entries = new Map<string, Entry>();
  private bytes = 0;
  /** Grows when what failed may succeed now. */
  readonly generation = signal(0);

  constructor(readonly host: Host) {}

  /** The state of a request, which is sent if it never was. Without `lane` it waits for its turn, with one it replaces. */
  ask<D>(verb: string, params: object, lane?: string): ReadonlySignal<Loadable<D>> {
    const key = keyOf(verb, params);
    const known = this.entries.get(key);
    if (known) {
      // The last used are at the end, the first are dropped first.
      this.entries.delete(key);
      this.entries.set(key, known);
      if (known.signal.peek().status === "idle") this.send(key, known, verb, params, lane);
      return known.signal as ReadonlySignal<Loadable<D>>;
    }
    const entry = this.add(key, verb);
    this.send(key, entry, verb, params, lane);
    return entry.signal as ReadonlySignal<Loadable<D>>;
  }

  /** What is known of a request, without sending it; who reads it follows it, also if it is sent later. */
  peek<D>(verb: string, params: object): Loadable<D> {
    const key = keyOf(verb, params);
    const entry = this.entries.get(key) ?? this.add(key, verb);
    return entry.signal.value as Loadable<D>;
  }

  private add(key: string, verb: string): Entry {
    const entry: Entry = {
      verb,
      signal: signal<Loadable<unknown>>({ status: "idle" }),
      bytes: 0,
      abort: new AbortController(),
    };
    this.entries.set(key, entry);
    return entry;
  }

  /** Forgets an error, so that the request is sent again when it is asked for. */
  retry(verb: string, params: object): void {
    const entry = this.entries.get(keyOf(verb, params));
    if (entry?.signal.peek().status === "error") entry.signal.value = { status: "idle" };
  }

  /** Forgets all errors: the library has more than before. */
  forgetErrors(): void {
    for (const entry of this.entries.values()) {
      if (entry.signal.peek().status === "error") entry.signal.value = { status: "idle" };
    }
    this.generation.value += 1;
  }

  /** Forgets the answers that may be of fewer texts than there are now. */
  forgetGrowing(): void {
    for (const entry of this.entries.values()) {
      if (!GROWING.has(entry.verb) || entry.signal.peek().status !== "done") continue;
      this.bytes -= entry.bytes;
      entry.bytes = 0;
      entry.signal.value = { status: "idle" };
    }
    this.generation.value += 1;
  }

  /** Takes a request back that nobody waits for any more. */
  drop(verb: string, params: object): void {
    const entry = this.entries.get(keyOf(verb, params));
    if (entry?.signal.peek().status === "loading") entry.abort.abort();
  }

  private send(key: string, entry: Entry, verb: string, params: object, lane?: string): void {
    entry.abort = new AbortController();
    entry.signal.value = { status: "loading", progress: null, doing: "" };
    const onProgress = (progress: number, doing: string) => {
      entry.signal.value = { status: "loading", progress, doing };
    };
    const options = { onProgress, signal: entry.abort.signal, ...(lane === undefined ? {} : { lane }) };
    this.host.request(verb, params, options).then(
      (reply) => {
        entry.signal.value = { status: "done", reply };
        entry.bytes = sizeOf(reply.arrays);
        this.bytes += this.entries.has(key) ? entry.bytes : 0;
        this.trim(key);
      },
      (error: unknown) => {
        if (error instanceof Cancelled) entry.signal.value = { status: "idle" };
        else entry.signal.value = { status: "error", error: error instanceof Error ? error.message : String(error) };
      },
    );
  }

  private trim(keep: string): void {
    for (const [key, entry] of this.entries) {
      if (this.bytes <= ROOM && this.entries.size <= MOST) return;
      if (key === keep || entry.signal.peek().status === "loading") continue;
      this.entries.delete(key);
      this.bytes -= entry.bytes;
    }
  }
}

function sizeOf(arrays: Arrays): number {
  return Object.values(arrays).reduce((sum, { values }) => sum + values.byteLength, 1024);
}
