/** Kinds of gates: their letters and colours, and their names from scores with thresholds that can be moved. */
import { PALETTE } from "./colour";

export const GATES = [
  "closed",
  "directional",
  "open",
  "forward contextual",
  "backward contextual",
  "cluster",
  "instance",
] as const;
export type Gate = (typeof GATES)[number];

export const GATE_LOOKS: Record<Gate | "mixed", { letter: string; colour: string; about: string }> = {
  closed: { letter: "C", colour: PALETTE[6], about: "looks at special tokens, or at nothing" },
  directional: { letter: "D", colour: PALETTE[0], about: "looks at a few tokens, whoever looks" },
  open: { letter: "O", colour: PALETTE[5], about: "looks everywhere about evenly" },
  "forward contextual": { letter: "F", colour: PALETTE[4], about: "looks at what comes after" },
  "backward contextual": { letter: "B", colour: PALETTE[1], about: "looks at what comes before" },
  cluster: { letter: "K", colour: PALETTE[2], about: "looks within blocks of the text" },
  instance: { letter: "I", colour: PALETTE[3], about: "looks at single places of a text" },
  mixed: { letter: "·", colour: "#d8dee4", about: "is of no kind, or a mixture" },
};

/** The kinds in a name such as "open + instance". */
export function kindsIn(name: string | null | undefined): Gate[] {
  const parts = (name ?? "").split("+").map((part) => part.trim());
  return GATES.filter((gate) => parts.includes(gate));
}

export interface Threshold {
  name: string;
  about: string;
  initial: number;
  low: number;
  high: number;
}

/** The thresholds of conoscope's gates, with the defaults of `Thresholds`. */
export const THRESHOLDS: readonly Threshold[] = [
  { name: "closed_special", about: "closed: weight on special tokens, at least", initial: 0.6, low: 0, high: 1 },
  { name: "directional_column", about: "directional: weight on one token, at least", initial: 0.5, low: 0, high: 1 },
  {
    name: "directional_columns",
    about: "directional: weight on a few tokens, at least",
    initial: 0.6,
    low: 0,
    high: 1,
  },
  { name: "directional_apart", about: "directional: difference of rows, at most", initial: 0.25, low: 0, high: 1 },
  { name: "open_entropy", about: "open: entropy, at least", initial: 0.8, low: 0, high: 1 },
  { name: "open_spread", about: "open: largest weight over the mean, at most", initial: 5, low: 1, high: 20 },
  { name: "contextual_mass", about: "contextual: weight on neighbours, at least", initial: 0.5, low: 0, high: 1 },
  { name: "cluster_mass", about: "cluster: weight within blocks, at least", initial: 0.3, low: 0, high: 1 },
  { name: "cluster_beyond", about: "cluster: of it beyond neighbours, at least", initial: 0.1, low: 0, high: 1 },
  {
    name: "instance_rows",
    about: "instance: share of rows with a strong cell, at most",
    initial: 0.05,
    low: 0,
    high: 0.5,
  },
  {
    name: "instance_shared",
    about: "instance: same place in other texts, below",
    initial: 0.01 / 0.3,
    low: 0,
    high: 0.5,
  },
];
const CLOSED_CELL = 0.01;
const ROUNDING = 1e-6;

export type Scores = Readonly<Record<string, number>>;

/** The gates of mean scores, by the rules of `names_of_gates` in conoscope.measures.gates. */
export function gatesOf(s: Scores, limits: Readonly<Record<string, number>>): Gate[] {
  const score = (name: string) => s[name] ?? Number.NaN;
  const limit = (name: string) => limits[name] ?? THRESHOLDS.find((t) => t.name === name)!.initial;
  const reaches = (value: number, least: number) => value >= least - ROUNDING;
  const below = (value: number, most: number) => value < most - ROUNDING;
  const within = (value: number, most: number) => value <= most + ROUNDING;
  const nowhere = below(score("peak"), CLOSED_CELL) && within(score("length") * CLOSED_CELL, 0.5);
  const closed = reaches(score("special"), limit("closed_special")) || nowhere;
  const even = reaches(score("entropy"), limit("open_entropy")) && within(score("spread"), limit("open_spread"));
  const carried =
    reaches(score("column"), limit("directional_column")) || reaches(score("columns"), limit("directional_columns"));
  const cluster =
    reaches(score("cluster"), limit("cluster_mass")) && reaches(score("cluster_beyond"), limit("cluster_beyond"));
  const mass = limit("contextual_mass");
  const both = reaches(score("forward"), mass / 2) && reaches(score("backward"), mass / 2) && !cluster;
  const few = within(score("strong") - Math.max(1 / score("length"), limit("instance_rows")), 0);
  const shared = below(score("shared"), limit("instance_shared"));
  const is: Record<Gate, boolean> = {
    closed,
    directional: !closed && carried && within(score("apart"), limit("directional_apart")) && !even,
    open: !closed && even,
    "forward contextual": !closed && (reaches(score("forward"), mass) || both),
    "backward contextual": !closed && (reaches(score("backward"), mass) || both),
    cluster: !closed && cluster,
    instance: reaches(score("has_strong"), 0.5) && few && shared,
  };
  return GATES.filter((gate) => is[gate]);
}
