/** Lines over layers, each named at its end; a table of the same numbers for those who do not see them. */

import { useWidth } from "../context";
import { visible } from "../draw/text";
import { Folded } from "./Folded";
import { across, type Domain, domainOf, down, type Frame, finite, pathOf, type Series, spread, ticks } from "./layers";

export interface LinesProps {
  title: string;
  series: Series[];
  /** The names of the columns: numbers of layers. */
  columns: number[];
  format: (value: number) => string;
  within?: Domain;
  /** Values nearer to each other than this are drawn near each other. */
  span?: number;
  /** The column that is marked. */
  marked?: number;
  onColumn?: (column: number) => void;
  /** A line at this value. */
  level?: number;
}

const FRAME: Frame = { width: 480, height: 190, left: 48, right: 104, top: 12, bottom: 30 };

export function Lines({ title, series, columns, format, within, span, marked, onColumn, level }: LinesProps) {
  const [box, width] = useWidth<HTMLElement>(FRAME.width);
  const frame = { ...FRAME, width };
  const domain = domainOf(series, within, span);
  const ends = series.map(({ values }) => lastOf(values));
  const heights = spread(
    ends.map((value) => down(frame, value ?? domain[0], domain)),
    14,
    frame.top + 4,
    frame.height - frame.bottom,
  );
  const x = (column: number) => across(frame, column, columns.length);
  const every = Math.ceil(columns.length / 14);
  return (
    <figure class="lines" ref={box}>
      <figcaption>{title}</figcaption>
      <svg
        viewBox={`0 0 ${frame.width} ${frame.height}`}
        role="img"
        aria-label={`${title}; the numbers are in the table below.`}
      >
        {ticks(domain).map((value) => (
          <g key={value}>
            <line
              class="rule"
              x1={frame.left}
              x2={frame.width - frame.right}
              y1={down(frame, value, domain)}
              y2={down(frame, value, domain)}
            />
            <text class="tick" x={frame.left - 6} y={down(frame, value, domain) + 4} text-anchor="end">
              {format(value)}
            </text>
          </g>
        ))}
        {level !== undefined && level >= domain[0] && level <= domain[1] ? (
          <line
            class="level"
            x1={frame.left}
            x2={frame.width - frame.right}
            y1={down(frame, level, domain)}
            y2={down(frame, level, domain)}
          />
        ) : null}
        {columns.map((layer, i) =>
          i % every === 0 || i === columns.length - 1 ? (
            <text key={layer} class="tick" x={x(i)} y={frame.height - 12} text-anchor="middle">
              {layer}
            </text>
          ) : null,
        )}
        {marked !== undefined ? (
          <line class="marked" x1={x(marked)} x2={x(marked)} y1={frame.top} y2={frame.height - frame.bottom} />
        ) : null}
        {series.map(({ name, colour, values, dashed }, s) => (
          <g key={s} stroke={colour} fill={colour}>
            <path d={pathOf(values, frame, domain)} class={dashed ? "line line-dashed" : "line"} />
            {values.map((value, i) =>
              finite(value) ? (
                <circle key={i} cx={x(i)} cy={down(frame, value, domain)} r={i === marked ? 4 : 2.2} />
              ) : null,
            )}
            {ends[s] === null ? null : (
              <text class="name" x={frame.width - frame.right + 8} y={heights[s]! + 4}>
                {visible(name, 14)}
                <title>{visible(name, 100)}</title>
              </text>
            )}
          </g>
        ))}
        {onColumn
          ? columns.map((layer, i) => (
              // biome-ignore lint/a11y/noStaticElementInteractions: a slider chooses the layer for those without a mouse.
              <rect
                key={layer}
                class="hot"
                x={x(i) - 10}
                y={frame.top}
                width={20}
                height={frame.height - frame.top - frame.bottom}
                onClick={() => onColumn(i)}
              >
                <title>{`Layer ${layer}`}</title>
              </rect>
            ))
          : null}
      </svg>
      <Numbers title={title} series={series} columns={columns} format={format} />
    </figure>
  );
}

function Numbers({ title, series, columns, format }: Pick<LinesProps, "title" | "series" | "columns" | "format">) {
  return (
    <Folded class="numbers" summary="Numbers">
      {() => (
        <div class="scrolled">
          <table>
            <caption class="unseen">{title}</caption>
            <thead>
              <tr>
                <th scope="col">layer</th>
                {columns.map((layer) => (
                  <th key={layer} scope="col">
                    {layer}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {series.map(({ name, values }, s) => (
                <tr key={s}>
                  <th scope="row">{visible(name, 40)}</th>
                  {columns.map((layer, i) => (
                    <td key={layer}>{finite(values[i]) ? format(values[i]) : "–"}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Folded>
  );
}

function lastOf(values: (number | null)[]): number | null {
  return values.findLast((value): value is number => finite(value)) ?? null;
}
