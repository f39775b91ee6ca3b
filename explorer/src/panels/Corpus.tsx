/** The list of the corpus. */
import { useApp } from "../context";

export function CorpusPanel() {
  const { hello } = useApp();
  if (!hello.corpus) return null;
  return <p class="empty">{hello.corpus.name}</p>;
}
