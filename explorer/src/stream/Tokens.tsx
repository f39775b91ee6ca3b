/** The tokens of a text, shaded by what the heads took from them. */

import { useApp } from "../context";
import { visible } from "../draw/text";
import { walk } from "../keys";
import type { TokenInfo } from "../protocol";
import { inkOn, shade } from "./shades";
import { largest, signed } from "./steps";

interface TokensProps {
  title: string;
  tokens: TokenInfo[];
  amounts: number[];
  dark: boolean;
  turned: boolean;
}

export function Tokens({ title, tokens, amounts, dark, turned }: TokensProps) {
  const { state } = useApp();
  const most = largest(amounts);
  const drawn = (amount: number) => (turned ? -amount : amount);
  if (!amounts.length) return null;
  const chosen = state.token.value;
  const inOrder = chosen !== null && chosen < amounts.length ? chosen : 0;
  return (
    <div class="stream-tokens">
      <h3>{title}</h3>
      <ol onKeyDown={walk}>
        {amounts.map((amount, t) => (
          <li key={t}>
            <button
              type="button"
              class={state.token.value === t ? "now" : ""}
              aria-pressed={state.token.value === t}
              tabIndex={t === inOrder ? 0 : -1}
              style={{ backgroundColor: shade(drawn(amount), most, dark), color: inkOn(drawn(amount), most, dark) }}
              title={signed(amount, 3)}
              onClick={() => (state.token.value = state.token.value === t ? null : t)}
            >
              <bdi>{visible(tokens[t]?.text ?? String(t + 1))}</bdi>
              <span class="amount">{signed(amount)}</span>
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}
