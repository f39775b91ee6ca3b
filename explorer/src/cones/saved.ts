/** The true angles that are shown, as a table for files. */
import { csvOf, type Value } from "../draw/csv";
import { classAngles, textAngles } from "./angles";
import { drawnAngle } from "./geometry";
import type { Place, TextPlace } from "./Tables";

const COLUMNS = ["result", "site", "layer", "of", "to", "angle", "drawn"];

/** One row for each angle between two classes, each cone, and each text and class. */
export function anglesCsv(places: Place[], texts: TextPlace[]): string {
  return csvOf(COLUMNS, [...places.flatMap(ofClasses), ...texts.flatMap(ofText)]);
}

function ofClasses(place: Place): Value[][] {
  const { classes } = place.cones.data;
  const angles = classAngles(place.cones, place.site, place.row);
  const before = [place.name, place.site, place.layer];
  const pairs = classes.flatMap((name, c) =>
    classes.slice(c + 1).map((other, k) => {
      const d = c + 1 + k;
      const drawn = drawnAngle(place.drawn[c]!.axis, place.drawn[d]!.axis);
      return [...before, name, other, angles[c]?.[d], drawn];
    }),
  );
  const cones = classes.map((name, c) => [...before, name, "its cone", place.drawn[c]?.degrees, null]);
  return [...pairs, ...cones];
}

function ofText({ name, place, at }: TextPlace): Value[][] {
  const { classes } = at.cones.data;
  const angles = textAngles(place, at.layer, at.row, classes.length);
  return classes.map((label, c) => [at.name, at.site, at.layer, name, label, angles[c], null]);
}
