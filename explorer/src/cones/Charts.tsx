/** What the layers do to the true angles, as lines. */
import { useApp } from "../context";
import { Lines } from "../stream/Lines";
import { classAngles, degrees, meanBetween, textAngles } from "./angles";
import { colourOf } from "./colours";
import { rowOf } from "./data";
import type { Place, TextPlace } from "./Tables";

/** More lines than this cannot be told apart. */
const LINES = 6;

/** Whether the classes part from layer to layer. */
export function Apart({ places, dark }: { places: Place[]; dark: boolean }) {
  const { state } = useApp();
  const first = places[0]!;
  const columns = first.cones.data.layers[first.site] ?? [];
  if (columns.length < 2) return null;
  const series = places.map(({ cones, site, side }, i) => ({
    name: places.length > 1 ? side : "mean",
    colour: colourOf(i, dark),
    dashed: i > 0,
    values: columns.map((layer) => meanBetween(classAngles(cones, site, rowOf(cones.data, site, layer)))),
  }));
  return (
    <Lines
      title="Mean true angle between classes, by layer"
      series={series}
      columns={columns}
      format={(value) => degrees(value)}
      within={[0, 180]}
      span={10}
      marked={first.row}
      onColumn={(column) => {
        state.coneLayer.value = columns[column] ?? null;
      }}
    />
  );
}

/** How a text comes nearer to its class from layer to layer. */
export function Towards({ texts, dark }: { texts: TextPlace[]; dark: boolean }) {
  const { state } = useApp();
  const first = texts[0];
  if (!first) return null;
  const { cones, site, row } = first.at;
  const columns = cones.data.layers[site] ?? [];
  const { classes } = cones.data;
  if (columns.length < 2) return null;
  const last = textAngles(first.place, columns.at(-1)!, columns.length - 1, classes.length);
  const nearest = classes
    .map((_, c) => c)
    .sort((c, d) => (last[c] ?? 360) - (last[d] ?? 360))
    .slice(0, LINES)
    .sort((c, d) => c - d);
  const series = texts.flatMap(({ place, at, name }, i) => {
    const rows = columns.map((layer, own) => textAngles(place, layer, own, at.cones.data.classes.length));
    return nearest.map((c) => ({
      name: texts.length > 1 ? `${name.slice(-1)} ${classes[c]}` : classes[c]!,
      colour: colourOf(c, dark),
      dashed: i > 0,
      values: rows.map((angles) => angles[c] ?? null),
    }));
  });
  return (
    <Lines
      title={`True angle from the text to ${classes.length > LINES ? `the ${LINES} nearest classes` : "each class"}, by layer`}
      series={series}
      columns={columns}
      format={(value) => degrees(value)}
      within={[0, 180]}
      span={10}
      marked={row}
      onColumn={(column) => {
        state.coneLayer.value = columns[column] ?? null;
      }}
    />
  );
}
