/** From replies to a scene: which points, which cones, which texts. */
import { type ConePoint, type ConesReply, cloudOf, conesOf, type PlaceReply, pathOf, rightOf, tokensOf } from "./data";
import type { Marked, Scene } from "./scene";

export interface Choice {
  site: string;
  row: number;
  lengths: boolean;
  /** Classes whose cones and points are hidden. */
  hidden: ReadonlySet<number>;
  errorsOnly: boolean;
}

export interface NamedPlace {
  name: string;
  colour: string;
  place: PlaceReply;
}

/** A scene without texts. */
export function sceneOf(cones: ConesReply, choice: Choice): Scene {
  const { classes, points } = cones.data;
  const cloud = cloudOf(cones.arrays, choice.site, choice.row, choice.lengths);
  const labels = new Int16Array(cloud.shown.length);
  const wrong = new Uint8Array(cloud.shown.length);
  const shown = cloud.shown;
  for (let i = 0; i < shown.length; i++) {
    const point = points[i];
    const label = point?.label ?? -1;
    labels[i] = label;
    wrong[i] = point && rightOf(point) === false ? 1 : 0;
    if (choice.hidden.has(label) || (choice.errorsOnly && !wrong[i])) shown[i] = 0;
  }
  return {
    positions: cloud.positions,
    shown,
    classes: labels,
    wrong,
    cones: conesOf(cones.arrays, choice.site, choice.row, classes.length),
    visible: classes.map((_, c) => !choice.hidden.has(c)),
    names: classes,
    texts: [],
    pointed: -1,
  };
}

/** How the texts are drawn in that scene. */
export function marksOf(cones: ConesReply, choice: Choice, texts: NamedPlace[]): Marked[] {
  return texts.map(({ name, colour, place }) => {
    const path = pathOf(place, cones, choice.site, choice.lengths);
    return {
      name,
      colour,
      path,
      at: path.slice(choice.row * 3, choice.row * 3 + 3),
      tokens: tokensOf(place, cones, choice.site, choice.row, choice.lengths),
    };
  });
}

/** How many points are drawn, and how many of these are errors; null where no answer is known. */
export function counted(scene: Scene, points: readonly ConePoint[]): { shown: number; wrong: number | null } {
  let [shown, wrong, known] = [0, 0, 0];
  scene.shown.forEach((there, i) => {
    const point = points[i];
    shown += there;
    known += there && point && rightOf(point) !== null ? 1 : 0;
    wrong += there && scene.wrong[i]! ? 1 : 0;
  });
  return { shown, wrong: known ? wrong : null };
}

/** The next shown point after one, in the order of the sample; -1 if none is shown. */
export function nextShown(shown: Uint8Array, from: number, step: 1 | -1): number {
  for (let k = 1; k <= shown.length; k++) {
    const i = (((from + step * k) % shown.length) + shown.length) % shown.length;
    if (shown[i]) return i;
  }
  return -1;
}
