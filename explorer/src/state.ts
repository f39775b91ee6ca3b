/** What is selected and shown: signals, mirrored in the fragment of the page's address. */
import { batch, type Signal, signal } from "@preact/signals";
import { type Edits, isCount, isRecord, type MapKind } from "./protocol";

export const TABS = ["head", "words", "heads", "cones", "stream"] as const;
export type Tab = (typeof TABS)[number];
export const SHOWS = ["a", "b", "diff"] as const;
export type Show = (typeof SHOWS)[number];
export const MAPS = ["weights", "norms", "residual"] as const satisfies readonly MapKind[];

/** How one key of the fragment is read and written. A value that `read` refuses (undefined) falls to the default. */
interface Field<T> {
  initial: T;
  read: (text: string) => T | undefined;
  write: (value: T) => string;
}

const LONGEST = 100_000;

function choice<T extends string>(values: readonly T[], initial: T): Field<T> {
  return { initial, read: (text) => values.find((value) => value === text), write: (value) => value };
}

function count(initial: number, least = 0): Field<number> {
  return { initial, read: (text) => wholeNumber(text, least), write: String };
}

function maybeCount(least = 0): Field<number | null> {
  return {
    initial: null,
    read: (text) => wholeNumber(text, least),
    write: (value) => (value === null ? "" : String(value)),
  };
}

function words(initial = ""): Field<string> {
  return { initial, read: (text) => text.slice(0, LONGEST), write: (value) => value };
}

function flag(initial = false): Field<boolean> {
  return {
    initial,
    read: (text) => (text === "1" ? true : text === "0" ? false : undefined),
    write: (value) => (value ? "1" : "0"),
  };
}

function maybeWords(): Field<string | null> {
  return { initial: null, read: (text) => text.slice(0, LONGEST), write: (value) => value ?? "" };
}

const edits: Field<Edits> = { initial: {}, read: readEdits, write: (value) => JSON.stringify(value) };

/** Every key of the state; a new one is a line here. */
export const FIELDS = {
  tab: choice(TABS, "head"),
  text: words(),
  pair: maybeWords(),
  other: maybeWords(),
  otherPair: maybeWords(),
  model: count(0),
  modelB: maybeCount(),
  show: choice(SHOWS, "a"),
  layer: count(1, 1),
  head: count(1, 1),
  map: choice(MAPS, "weights"),
  token: maybeCount(),
  word: maybeCount(),
  method: words("attention"),
  grid: words("map"),
  result: count(0),
  edits,
  site: words(),
  centred: flag(),
  lengths: flag(),
  coneLayer: maybeCount(),
  resultB: maybeCount(),
} satisfies Record<string, Field<never> | Field<unknown> | object>;

type Fields = typeof FIELDS;
type Values = { [K in keyof Fields]: Fields[K] extends Field<infer T> ? T : never };
export type State = { [K in keyof Values]: Signal<Values[K]> };

const KEYS = Object.keys(FIELDS) as (keyof Fields)[];

/** A state in which everything is at its default. */
export function createState(): State {
  return Object.fromEntries(KEYS.map((key) => [key, signal(FIELDS[key].initial)])) as State;
}

/** The fragment of a state, without the `#`; keys at their defaults are left out. */
export function writeFragment(state: State): string {
  return KEYS.flatMap((key) => {
    const field = FIELDS[key] as Field<unknown>;
    const text = (value: unknown) => (value === null ? null : field.write(value));
    const now = text(state[key].value);
    return now === null || now === text(field.initial) ? [] : [`${key}=${encodeURIComponent(wellFormed(now))}`];
  }).join("&");
}

/** Sets the state to what a fragment says; a key that is not there, or that says nothing possible, is at its default. */
export function readFragment(state: State, fragment: string): void {
  const found = new Map<string, string>();
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at > 0) found.set(part.slice(0, at), decoded(part.slice(at + 1)));
  }
  batch(() => {
    for (const key of KEYS) {
      const field = FIELDS[key] as Field<unknown>;
      const text = found.get(key);
      const value = text === undefined ? undefined : field.read(text);
      const next = value === undefined ? field.initial : value;
      const target = state[key] as Signal<unknown>;
      // Equal edits are another object each time they are read.
      if (target.value === null || next === null || field.write(next) !== field.write(target.value))
        target.value = next;
    }
  });
}

/** The text without halves of characters, which no address can hold. */
function wellFormed(text: string): string {
  return text.replace(/[\ud800-\udfff]/gu, "\ufffd");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function wholeNumber(text: string, least: number): number | undefined {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return value >= least ? value : undefined;
}

function readEdits(text: string): Edits | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return isRecord(value) ? checkedEdits(value) : undefined;
}

/** The edits that a record of any origin has, without what is none. */
export function checkedEdits(value: Record<string, unknown>): Edits {
  const out: Edits = {};
  if (Array.isArray(value.erase)) out.erase = [...new Set(value.erase.filter(isCount))].sort((a, b) => a - b);
  if (isRecord(value.replace)) {
    const entries = Object.entries(value.replace).filter(
      ([word, by]) => /^\d{1,6}$/.test(word) && typeof by === "string",
    );
    out.replace = Object.fromEntries(entries) as Record<string, string>;
  }
  if (Array.isArray(value.ablate)) {
    const heads = value.ablate.filter((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isCount));
    out.ablate = heads as [number, number][];
  }
  if (value.how === "zero" || value.how === "mean") out.how = value.how;
  const steer = value.steer;
  if (isRecord(steer) && isCount(steer.layer) && isCount(steer.to) && Number.isFinite(steer.angle)) {
    out.steer = { layer: steer.layer, to: steer.to, angle: Number(steer.angle) };
  }
  return withoutEmpty(out);
}

/** The same edits without keys that change nothing, so that equal edits are equal JSON. */
export function withoutEmpty(edits: Edits): Edits {
  const out: Edits = {};
  if (edits.erase?.length) out.erase = edits.erase;
  if (edits.replace && Object.keys(edits.replace).length) out.replace = edits.replace;
  if (edits.ablate?.length) out.ablate = edits.ablate;
  if (edits.ablate?.length && edits.how && edits.how !== "zero") out.how = edits.how;
  if (edits.steer && edits.steer.angle !== 0) out.steer = edits.steer;
  return out;
}
