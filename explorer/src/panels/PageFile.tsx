/** A button that saves the page with the texts on the screen as one file, which needs no server. */
import { useRef, useState } from "preact/hooks";
import { useApp } from "../context";
import { Cancelled } from "../protocol";
import { saveFile } from "../save";

interface PageData {
  "file name": string;
  notes: string[];
}

export function PageFile() {
  const { host, state } = useApp();
  const [share, setShare] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const running = useRef<AbortController | null>(null);
  if (!host.live) return null;
  const save = async () => {
    if (running.current) return running.current.abort();
    running.current = new AbortController();
    setShare(0);
    setSaid("");
    try {
      const texts = { text: state.text.value, other: state.other.value };
      const options = { lane: "export", signal: running.current.signal, onProgress: setShare };
      const { data, arrays } = await host.request<PageData>("export", { state: texts }, options);
      saveFile(data["file name"], new Blob([arrays.page!.values as Uint8Array<ArrayBuffer>], { type: "text/html" }));
      setSaid(data.notes.join("; "));
    } catch (error) {
      if (!(error instanceof Cancelled)) setSaid(error instanceof Error ? error.message : String(error));
    } finally {
      running.current = null;
      setShare(null);
    }
  };
  return (
    <p>
      <button
        type="button"
        onClick={save}
        title="One HTML file with the texts on the screen and those of the corpus that are listed; it needs no server"
      >
        {share === null ? "Save as page" : `Computing the page, ${Math.round(100 * share)} %: stop`}
      </button>{" "}
      <span role="status">{said}</span>
    </p>
  );
}
