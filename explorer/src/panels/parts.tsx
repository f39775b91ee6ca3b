/** Small parts that all views use. */
import type { CanvasHTMLAttributes, ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { type Shown, useApp } from "../context";
import { CanvasPaint, type Picture } from "../draw/paint";
import { type Scale, stopsOf } from "../draw/scale";
import { figure } from "../draw/text";

interface SegmentsProps<T extends string> {
  label: string;
  options: readonly { value: T; name: string; title?: string; disabled?: boolean }[];
  value: T;
  onChange: (value: T) => void;
}

/** A choice of a few, all to be seen. */
export function Segments<T extends string>({ label, options, value, onChange }: SegmentsProps<T>) {
  const name = useId();
  return (
    <fieldset class="segments">
      <legend>{label}</legend>
      {options.map((option) => (
        <label key={option.value} title={option.title}>
          <input
            type="radio"
            name={name}
            checked={option.value === value}
            disabled={option.disabled}
            onChange={() => onChange(option.value)}
          />
          <span>{option.name}</span>
        </label>
      ))}
    </fieldset>
  );
}

interface SelectProps {
  label: string;
  options: readonly { value: string; name: string }[];
  value: string;
  onChange: (value: string) => void;
}

export function Select({ label, options, value, onChange }: SelectProps) {
  return (
    <label class="select">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.name}
          </option>
        ))}
      </select>
    </label>
  );
}

interface StepperProps {
  label: string;
  value: number;
  most: number;
  onChange: (value: number) => void;
}

/** A number from 1 on, with buttons to the one before and after. */
export function Stepper({ label, value, most, onChange }: StepperProps) {
  return (
    <span class="stepper">
      <button type="button" aria-label={`${label} before`} disabled={value <= 1} onClick={() => onChange(value - 1)}>
        ‹
      </button>
      <Select
        label={label}
        value={String(value)}
        options={Array.from({ length: most }, (_, i) => ({ value: String(i + 1), name: String(i + 1) }))}
        onChange={(text) => onChange(Number(text))}
      />
      <button type="button" aria-label={`${label} after`} disabled={value >= most} onClick={() => onChange(value + 1)}>
        ›
      </button>
    </span>
  );
}

type CanvasProps = Omit<CanvasHTMLAttributes<HTMLCanvasElement>, "label"> & { picture: Picture; label: string };

/** Browsers refuse canvases beyond this many pixels a side. */
const LONGEST = 16_000;

/** A picture on a canvas, drawn before the browser paints the same frame. */
export function Drawn({ picture, label, ...rest }: CanvasProps) {
  const ref = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (ref.current) drawOn(ref.current, picture);
  }, [picture]);
  return <canvas ref={ref} role="img" aria-label={label} {...rest} />;
}

export function drawOn(canvas: HTMLCanvasElement, picture: Picture, ratio = window.devicePixelRatio || 1): void {
  const { width, height } = picture;
  const fit = Math.min(ratio, LONGEST / Math.max(1, width, height));
  const [columns, rows] = [Math.max(1, Math.round(width * fit)), Math.max(1, Math.round(height * fit))];
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== rows) canvas.height = rows;
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(fit, 0, 0, fit, 0, 0);
  context.clearRect(0, 0, width, height);
  picture.draw(new CanvasPaint(context));
}

/** The legend of a scale: its colours and the numbers at both ends. */
export function ScaleLegend({ scale, name }: { scale: Scale; name: string }) {
  const stops = stopsOf(scale);
  const picture = {
    width: 120,
    height: 10,
    draw: (paint: { rect: (x: number, y: number, w: number, h: number, fill: string) => void }) => {
      stops.forEach(({ colour }, i) => {
        paint.rect((i * 120) / stops.length, 0, 120 / stops.length + 0.5, 10, colour);
      });
    },
  };
  const low = scale.signed ? figure(-scale.most) : "0";
  return (
    <span class="legend">
      <span>{name}</span>
      <span>{low}</span>
      <Drawn picture={picture} label={`colours from ${low} to ${figure(scale.most)}`} />
      <span>{figure(scale.most)}</span>
    </span>
  );
}

/** What stands where a reply is not there yet: loading, an error with a button, or what to do. */
export function Waiting<D>({ shown, what, empty }: { shown: Shown<D>; what: string; empty?: ComponentChildren }) {
  if (shown.error !== null) return <Failure line={shown.error} retry={shown.retry} />;
  if (shown.status === "loading") return <Progress what={what} share={shown.progress} />;
  return empty ? <p class="empty">{empty}</p> : null;
}

export function Failure({ line, retry }: { line: string; retry?: () => void }) {
  const { host } = useApp();
  return (
    <p class="failure" role="alert">
      {line}{" "}
      {retry && host.live ? (
        <button type="button" onClick={retry}>
          Try again
        </button>
      ) : null}
    </p>
  );
}

export function Progress({ what, share }: { what: string; share: number | null }) {
  return (
    <p class="progress" role="status">
      {what}
      {share === null ? "…" : <progress max={1} value={share} aria-label={what} />}
    </p>
  );
}
