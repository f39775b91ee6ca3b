/** Steps that end in the total, one row for each part, as a list that is read as well as seen. */
import { useApp } from "../context";
import { adds, missing, type Parts, range, type Step, signed, waterfall } from "./steps";

const NAMES = { embeddings: "embeddings", heads: "heads", forward: "feed-forward", bias: "biases", rest: "rest" };

export interface WaterfallProps {
  title: string;
  parts: Parts;
  /** What values above and below 0 speak for. */
  up: string;
  down: string;
}

export function Waterfall({ title, parts, up, down }: WaterfallProps) {
  const { state } = useApp();
  const steps = waterfall(parts);
  const [low, high] = range(steps, parts.total);
  const x = (value: number) => (100 * (value - low)) / (high - low);
  return (
    <div class="waterfall">
      <h3>{title}</h3>
      <p class="muted ends">
        <span>← {down}</span>
        <span>{up} →</span>
      </p>
      <table>
        <caption class="unseen">{title}: parts in the order of computation, and where the sum is after each</caption>
        <thead class="unseen">
          <tr>
            <th scope="col">part</th>
            <th scope="col">drawn</th>
            <th scope="col">adds</th>
            <th scope="col">sum so far</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step, i) => (
            <tr
              key={i}
              class={step.layer === state.layer.value ? `step ${step.kind} now` : `step ${step.kind}`}
              onClick={step.layer === null ? undefined : () => (state.layer.value = step.layer!)}
            >
              <th scope="row">{nameOf(step)}</th>
              <td class="drawn-step">
                <Bar from={x(step.from)} to={x(step.to)} zero={x(0)} sign={step.value} />
              </td>
              <td class="number">{signed(step.value)}</td>
              <td class="number so-far">{signed(step.to)}</td>
            </tr>
          ))}
          <tr class="step total">
            <th scope="row">total</th>
            <td class="drawn-step">
              <Bar from={x(0)} to={x(parts.total)} zero={x(0)} sign={parts.total} />
            </td>
            <td class="number">{signed(parts.total)}</td>
            <td class="number so-far" />
          </tr>
        </tbody>
      </table>
      {adds(steps, parts.total) ? null : (
        <p class="failure">These parts miss {signed(missing(steps, parts.total), 4)} of the total.</p>
      )}
    </div>
  );
}

function nameOf({ kind, layer }: Step): string {
  return layer === null ? NAMES[kind] : `layer ${layer}, ${NAMES[kind]}`;
}

function Bar({ from, to, zero, sign }: { from: number; to: number; zero: number; sign: number }) {
  const [left, width] = [Math.min(from, to), Math.max(0.4, Math.abs(to - from))];
  return (
    <svg class="step-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <line class="zero" x1={zero} x2={zero} y1="0" y2="10" />
      <rect class={sign < 0 ? "less" : "more"} x={left} width={width} y="1" height="8" />
      <line class="reached" x1={to} x2={to} y1="0" y2="10" />
    </svg>
  );
}
