/** What the grid of heads can show: of the text that was typed, or over the corpus of a result. */

import { LOOKS, type Look } from "./draw/maps";
import type { RunData } from "./protocol";

export interface GridOption {
  value: string;
  name: string;
  /** What a number is, and how to read a large and a small one. */
  about: string;
  of: "text" | "corpus";
  kind: "map" | "gate" | "value";
  look?: Look;
  /** The array of a run that holds it. */
  array?: string;
  /** The name that the verb `grid` has for it. */
  what?: string;
}

const LOOK_ABOUT: Record<Look, string> = {
  previous: "Share of the weight that goes to the token just before. Near 100 %: the head looks at the previous word.",
  next: "Share of the weight that goes to the token just after.",
  itself: "Share of the weight that stays at the token itself.",
  first: "Share of the weight that goes to the first token.",
  special: "Share of the weight that goes to special tokens such as [CLS] and [SEP]: a head at rest looks there.",
};
const ENTROPY = "How evenly the weight is spread, from 0 (all on one token) to 1 (the same on all).";
const SIM = (what: string) => `How narrow the cone of the ${what} of one text is: near 1, all point one way.`;

export const GRID_OPTIONS: readonly GridOption[] = [
  {
    value: "map",
    name: "maps",
    about: "The map of each head: bright is the largest weight. Rows look, columns are looked at.",
    of: "text",
    kind: "map",
  },
  {
    value: "gate",
    name: "kinds (gates)",
    about: "What kind of map each head has for this text.",
    of: "text",
    kind: "gate",
  },
  ...LOOKS.map(
    (look): GridOption => ({
      value: look,
      name: `weight to ${{ previous: "the token before", next: "the token after", itself: "itself", first: "the first token", special: "special tokens" }[look]}`,
      about: LOOK_ABOUT[look],
      of: "text",
      kind: "value",
      look,
    }),
  ),
  { value: "entropy", name: "entropy", about: ENTROPY, of: "text", kind: "value", array: "entropy" },
  { value: "sim_key", name: "SIM of keys", about: SIM("keys"), of: "text", kind: "value", array: "sim_key" },
  { value: "sim_value", name: "SIM of values", about: SIM("values"), of: "text", kind: "value", array: "sim_value" },
  {
    value: "sim_context",
    name: "SIM of outputs",
    about: SIM("outputs"),
    of: "text",
    kind: "value",
    array: "sim_context",
  },
  {
    value: "corpus_gate",
    name: "kinds (gates)",
    about: "What kind of gate each head is, by its mean scores.",
    of: "corpus",
    kind: "gate",
    what: "gate",
  },
  { value: "corpus_entropy", name: "entropy", about: ENTROPY, of: "corpus", kind: "value", what: "entropy" },
  { value: "corpus_sim_key", name: "SIM of keys", about: SIM("keys"), of: "corpus", kind: "value", what: "sim_key" },
  {
    value: "corpus_sim_value",
    name: "SIM of values",
    about: SIM("values"),
    of: "corpus",
    kind: "value",
    what: "sim_value",
  },
  {
    value: "corpus_sim_context",
    name: "SIM of outputs",
    about: SIM("outputs"),
    of: "corpus",
    kind: "value",
    what: "sim_context",
  },
  {
    value: "ablation",
    name: "effect of ablation",
    about: "How much the answers change when the head is taken out. Near 0: nobody misses it.",
    of: "corpus",
    kind: "value",
    what: "ablation",
  },
];

/** The option of a name of any origin; the maps, or what results have, where there is none. */
export function optionOf(value: string, models: boolean): GridOption {
  const found = GRID_OPTIONS.find((option) => option.value === value);
  if (found && (models || found.of === "corpus")) return found;
  return GRID_OPTIONS.find((option) => (models ? option.value === "map" : option.of === "corpus"))!;
}

/** The gate of a head (from 1) in a run. */
export function gateOf(run: RunData | null, layer: number, head: number): string | null {
  return run?.gates[layer - 1]?.[head - 1] ?? null;
}
