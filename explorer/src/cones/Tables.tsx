/** The true angles in d dimensions, and how much of the vectors the drawing shows. */
import type { ComponentChildren } from "preact";
import { percent, visible } from "../draw/text";
import { Folded } from "../stream/Folded";
import {
  type Angle,
  classAngles,
  degrees,
  difference,
  explainedSum,
  meanBetween,
  textAngles,
  tokenAngles,
} from "./angles";
import { colourOf } from "./colours";
import type { Cone, ConesReply, PlaceReply } from "./data";
import { drawnAngle } from "./geometry";

/** One result at one site and layer. */
export interface Place {
  name: string;
  /** A or B where there are two results to be told apart, else empty. */
  side: string;
  cones: ConesReply;
  site: string;
  row: number;
  layer: number;
  drawn: Cone[];
}

/** How much of the vectors is drawn, and that a drawn angle is not the true one. */
export function Explained({ places }: { places: Place[] }) {
  return (
    <div class="explained">
      {places.map((place, i) => (
        <Shares key={i} place={place} named={places.length > 1} />
      ))}
      <p>
        <strong>Projections lie: a drawn angle is not the true one.</strong> What the three axes leave out is not drawn.
        The angles below are the true ones, in all dimensions; in brackets, as drawn.
      </p>
    </div>
  );
}

function Shares({ place, named }: { place: Place; named: boolean }) {
  const shares = place.cones.data.explained[place.site]?.[place.row];
  const sum = explainedSum(shares);
  if (!shares || sum === null) return <p>How much of the variance is drawn is not known here.</p>;
  return (
    <>
      <p>
        {named ? `${place.side}: ` : ""}
        <strong class="figure">{percent(sum)}</strong> of the variance is along the three drawn axes (
        {shares.map((share) => percent(share)).join(" + ")}).
      </p>
      <svg
        class="share"
        viewBox="0 0 100 4"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${percent(sum)} explained by three axes`}
      >
        <rect class="whole" width="100" height="4" />
        {shares.map((share, i) => (
          <rect
            key={i}
            class={`axis-${i}`}
            x={100 * shares.slice(0, i).reduce<number>((total, value) => total + (value ?? 0), 0)}
            width={100 * (share ?? 0)}
            height="4"
          />
        ))}
      </svg>
    </>
  );
}

/** Class × class, with the drawn angle beside the true one. */
export function ClassAngles({ place, dark }: { place: Place; dark: boolean }) {
  const { classes, n, quantile } = place.cones.data;
  const angles = classAngles(place.cones, place.site, place.row);
  return (
    <Scrolled>
      <table class="angles">
        <caption>
          <span>
            True angles between the classes, layer {place.layer}, {place.site}
            {place.side ? `, ${place.side}` : ""}. Cone: {Math.round(100 * quantile)} % of a class are within this angle
            of its axis.
          </span>
        </caption>
        <thead>
          <tr>
            <th scope="col">class</th>
            {classes.map((name, c) => (
              <th key={c} scope="col">
                <Dot index={c} dark={dark} /> {visible(name)}
              </th>
            ))}
            <th scope="col">cone</th>
            <th scope="col">n</th>
          </tr>
        </thead>
        <tbody>
          {classes.map((name, c) => (
            <tr key={c}>
              <th scope="row">
                <Dot index={c} dark={dark} /> {visible(name)}
              </th>
              {classes.map((_, d) => (
                <td key={d}>{c === d ? "·" : <Both angle={angles[c]?.[d] ?? null} drawn={drawnOf(place, c, d)} />}</td>
              ))}
              <td>{degrees(finite(place.drawn[c]?.degrees))}</td>
              <td>{n[c] ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolled>
  );
}

/** Whether the classes are farther apart in B than in A, as a sentence. */
export function Parted({ a, b }: { a: Place; b: Place }) {
  const [first, second] = [a, b].map((place) => meanBetween(classAngles(place.cones, place.site, place.row)));
  const change = difference(first, second);
  const much = change === null ? null : degrees(Math.abs(change));
  return (
    <p>
      The angle between classes is <strong>{degrees(first)}</strong> in A and <strong>{degrees(second)}</strong> in B
      {a.cones.data.classes.length > 2 ? ", on average" : ""}
      {change === null ? "." : `: they are ${much} ${change < 0 ? "closer" : "farther apart"} in B.`}
    </p>
  );
}

/** What a second result has more of each angle than the first. */
export function AngleDifferences({ a, b, dark }: { a: Place; b: Place; dark: boolean }) {
  const classes = a.cones.data.classes;
  const [first, second] = [classAngles(a.cones, a.site, a.row), classAngles(b.cones, b.site, b.row)];
  return (
    <Scrolled>
      <table class="angles">
        <caption>
          <span>
            Angles of B minus those of A, layer {b.layer} of B and {a.layer} of A
          </span>
        </caption>
        <thead>
          <tr>
            <th scope="col">class</th>
            {classes.map((name, c) => (
              <th key={c} scope="col">
                <Dot index={c} dark={dark} /> {visible(name)}
              </th>
            ))}
            <th scope="col">cone</th>
          </tr>
        </thead>
        <tbody>
          {classes.map((name, c) => (
            <tr key={c}>
              <th scope="row">
                <Dot index={c} dark={dark} /> {visible(name)}
              </th>
              {classes.map((_, d) => (
                <td key={d}>{c === d ? "·" : degrees(difference(first[c]?.[d], second[c]?.[d]), true)}</td>
              ))}
              <td>{degrees(difference(finite(a.drawn[c]?.degrees), finite(b.drawn[c]?.degrees)), true)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scrolled>
  );
}

export interface TextPlace {
  name: string;
  place: PlaceReply;
  at: Place;
  tokens: string[];
}

/** From the texts to each class; with two texts their difference. */
export function TextAngles({ texts, dark }: { texts: TextPlace[]; dark: boolean }) {
  const first = texts[0];
  if (!first) return null;
  const classes = first.at.cones.data.classes;
  const rows = texts.map(({ place, at }) => textAngles(place, at.layer, at.row, classes.length));
  const [a, b] = rows;
  return (
    <Scrolled>
      <table class="angles">
        <caption>
          <span>True angles from each text to the classes, layer {first.at.layer}. The nearest class is in bold.</span>
        </caption>
        <thead>
          <tr>
            <th scope="col">text</th>
            {classes.map((name, c) => (
              <th key={c} scope="col">
                <Dot index={c} dark={dark} /> {visible(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((angles, i) => (
            <tr key={i}>
              <th scope="row">{texts[i]!.name}</th>
              <Nearest angles={angles} />
            </tr>
          ))}
          {a && b ? (
            <tr>
              <th scope="row">B − A</th>
              {classes.map((_, c) => (
                <td key={c}>{degrees(difference(a[c], b[c]), true)}</td>
              ))}
            </tr>
          ) : null}
        </tbody>
      </table>
    </Scrolled>
  );
}

/** Angles of each token of a text. */
export function TokenAngles({ text, dark }: { text: TextPlace; dark: boolean }) {
  const { classes } = text.at.cones.data;
  const rows = tokenAngles(text.place, text.at.layer, text.at.row, classes.length);
  if (!rows.length) return null;
  return (
    <Folded summary={`Angles of the ${rows.length} tokens of ${text.name}`}>
      {() => (
        <Scrolled>
          <table class="angles">
            <caption class="unseen">True angles from each token to the classes</caption>
            <thead>
              <tr>
                <th scope="col">token</th>
                {classes.map((name, c) => (
                  <th key={c} scope="col">
                    <Dot index={c} dark={dark} /> {visible(name)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((angles, t) => (
                <tr key={t}>
                  <th scope="row">
                    {t + 1} <bdi>{visible(text.tokens[t] ?? "")}</bdi>
                  </th>
                  <Nearest angles={angles} />
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolled>
      )}
    </Folded>
  );
}

function Nearest({ angles }: { angles: Angle[] }) {
  const known = angles.filter((angle): angle is number => angle !== null);
  const least = known.length ? Math.min(...known) : null;
  return (
    <>
      {angles.map((angle, c) => (
        <td key={c}>{angle !== null && angle === least ? <strong>{degrees(angle)}</strong> : degrees(angle)}</td>
      ))}
    </>
  );
}

function Both({ angle, drawn }: { angle: Angle; drawn: Angle }) {
  return (
    <>
      {degrees(angle)} <span class="drawn">({degrees(drawn)})</span>
    </>
  );
}

/** The colour of a class as a dot beside its name. */
export function Dot({ index, dark }: { index: number | null; dark: boolean }) {
  return (
    <svg class="dot" viewBox="0 0 10 10" aria-hidden="true">
      <circle cx="5" cy="5" r="4.5" fill={colourOf(index, dark)} />
    </svg>
  );
}

function Scrolled({ children }: { children: ComponentChildren }) {
  return <div class="scrolled">{children}</div>;
}

function drawnOf(place: Place, c: number, d: number): Angle {
  const [a, b] = [place.drawn[c], place.drawn[d]];
  return a && b ? drawnAngle(a.axis, b.axis) : null;
}

function finite(value: number | undefined): Angle {
  return value !== undefined && Number.isFinite(value) ? value : null;
}
