/** The view Cones. */
import { useApp } from "../context";

export function ConesView() {
  const { hello } = useApp();
  return <p class="empty">Not here yet ({hello.version}).</p>;
}
