/** Lines over layers: their paths and where their names go. */

export interface Series {
  name: string;
  colour: string;
  values: (number | null)[];
  dashed?: boolean;
}

export interface Frame {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export type Domain = readonly [number, number];

/** The domain of all finite values with some room, at least `span` wide so that rounding is not blown up, within bounds. */
export function domainOf(series: Series[], within?: Domain, span = 0): Domain {
  const known = series.flatMap(({ values }) => values.filter((value): value is number => finite(value)));
  if (!known.length) return within ?? [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max((high - low || Math.abs(high) || 1) * 0.08, (span - (high - low)) / 2);
  const [least, most] = within ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  return [Math.max(least, low - room), Math.min(most, high + room)];
}

/** Where a column is, from the left. */
export function across(frame: Frame, column: number, columns: number): number {
  const inner = frame.width - frame.left - frame.right;
  return frame.left + (columns > 1 ? (inner * column) / (columns - 1) : inner / 2);
}

/** Where a value is, from the top. */
export function down(frame: Frame, value: number, [low, high]: Domain): number {
  const inner = frame.height - frame.top - frame.bottom;
  return frame.top + inner * (1 - (value - low) / (high - low || 1));
}

/** The path of a line, broken where a value is missing. */
export function pathOf(values: (number | null)[], frame: Frame, domain: Domain): string {
  let pen = false;
  return values
    .map((value, i) => {
      if (!finite(value)) {
        pen = false;
        return "";
      }
      const at = `${across(frame, i, values.length).toFixed(1)} ${down(frame, value, domain).toFixed(1)}`;
      const command = pen ? `L${at}` : `M${at}`;
      pen = true;
      return command;
    })
    .join("");
}

/** Heights at which names stand at least `gap` apart, in the order that they were given, as near to their wishes as that allows. */
export function spread(wishes: number[], gap: number, low: number, high: number): number[] {
  const order = wishes.map((_, i) => i).sort((a, b) => wishes[a]! - wishes[b]!);
  const out = [...wishes];
  let least = low;
  for (const i of order) {
    out[i] = Math.max(out[i]!, least);
    least = out[i]! + gap;
  }
  let most = high;
  for (const i of order.reverse()) {
    out[i] = Math.min(out[i]!, most);
    most = out[i]! - gap;
  }
  return out;
}

/** Round numbers within a domain, some three to six. */
export function ticks([low, high]: Domain): number[] {
  const raw = (high - low) / 4;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((size) => size >= raw) ?? raw;
  const out: number[] = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

export function finite(value: number | null | undefined): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}
