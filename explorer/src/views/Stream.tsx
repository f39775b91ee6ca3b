/** The view Stream. */
import { useApp } from "../context";

export function StreamView() {
  const { hello } = useApp();
  return <p class="empty">Not here yet ({hello.version}).</p>;
}
