/** What is on the screen, as Python and as a command that compute it again. */
import { type App, inputOf, resultOf, showOf } from "./context";
import { optionOf } from "./gridOptions";
import type { Input } from "./protocol";

const HIDDEN = /\p{Default_Ignorable_Code_Point}|[\u007f-\u009f\u2028\u2029\ufff9-\ufffb\ud800-\udfff]/gu;

/** A text as a literal of Python; what cannot be seen is escaped. */
export function pythonText(text: string): string {
  return JSON.stringify(text).replace(HIDDEN, codeOf);
}

function codeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A text as one word of a shell (bash, zsh); what cannot be seen is escaped. */
export function shellText(text: string): string {
  if (/^[\w./:@=+-]+$/.test(text)) return text;
  const plain = !/[\u0000-\u001f]/.test(text) && text.search(HIDDEN) < 0;
  if (plain) return `'${text.replaceAll("'", "'\\''")}'`;
  const marks: Record<string, string> = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'" };
  const escaped = text.replace(/[\n\t\r\\']/g, (mark) => marks[mark]!).replace(/[\u0000-\u001f]/g, codeOf);
  return `$'${escaped.replace(HIDDEN, codeOf)}'`;
}

/** The text of an input with its replacements; the words that are erased stay, since only the explorer erases. */
export function replaced(input: Input): string {
  const { replace = {} } = input.edits;
  let word = -1;
  return input.text.replace(/\S+/gu, (text) => {
    word += 1;
    return replace[String(word)] ?? text;
  });
}

function texts(input: Input): string {
  const text = pythonText(replaced(input));
  return input.pair === null ? `[${text}]` : `[cs.Example(${text}, pair=${pythonText(input.pair)})]`;
}

/** A comment on what the code leaves out; empty if it is nothing. */
function leftOut(input: Input): string {
  const { erase, ablate, steer } = input.edits;
  const parts = [
    ...(erase?.length ? ["erased words"] : []),
    ...(ablate?.length ? ["heads taken out"] : []),
    ...(steer ? ["the turned vector"] : []),
  ];
  return parts.length ? `# Without what the explorer changes live: ${parts.join(", ")}.\n` : "";
}

/** What opens the model of an input again. */
function sourceOf(app: App, model: number): string {
  const info = app.hello.models[model];
  return info?.source || info?.name || "MODEL";
}

/** Python that has the result which is shown: loaded from its folder, or measured again where it has none. */
function resultCode(app: App): string {
  const result = app.hello.results[resultOf(app, "a") ?? app.state.result.value];
  if (!result || result.source || result.model === null)
    return `cs.Result.load(${pythonText(result?.source || "OUT")})`;
  return `cs.measure(${pythonText(sourceOf(app, result.model))}, ${pythonText(result.corpus)}, limit=1000)`;
}

/** The input that is shown; null without a model or a text. */
function inputShown({ state, hello }: App): Input | null {
  if (!hello.models.length) return null;
  return inputOf(state, showOf(state) === "b" ? "b" : "a") ?? inputOf(state, "a");
}

/** Python that computes what the view shows; it runs as it is. */
export function pythonOf(app: App): string {
  const { state } = app;
  const input = inputShown(app);
  const tab = state.tab.value;
  const option = optionOf(state.grid.value, app.hello.models.length > 0);
  if (tab === "cones") return resultPython(app, "class_cones");
  if (!input || (tab === "heads" && option.of === "corpus")) return resultPython(app, tableOf(app, option.what ?? ""));
  const model = pythonText(sourceOf(app, input.model));
  const start = `import conoscope as cs\n\n${leftOut(input)}`;
  if (tab === "words") {
    const map = pythonText(state.method.value);
    return `${start}explained = cs.explain(${model}, ${texts(input)}, ${map})[0]\nprint(explained.words, explained[${map}], explained.probabilities)\n`;
  }
  if (tab === "stream")
    return `${start}parts = cs.attribute(${model}, ${texts(input)})\nprint(parts, parts["attribution.words"], sep="\\n")\n`;
  const traced = `${start}traced = cs.trace(${model}, ${texts(input)})\n`;
  if (tab === "heads")
    return `${traced}for layer, weights in traced["weights"].items():\n    print(layer, weights.shape)  # heads, queries, keys\n`;
  return `${traced}print(traced.tokens, traced["weights"][${state.layer.value}][${state.head.value - 1}])  # a row for each token that looks\n`;
}

function resultPython(app: App, table: string): string {
  return `import conoscope as cs\n\nresult = ${resultCode(app)}\nprint(result[${pythonText(table)}])\n`;
}

/** The table of a result that holds what a grid shows. */
function tableOf(app: App, what: string): string {
  const tables = app.hello.results[app.state.result.value]?.tables ?? [];
  const names: Record<string, string> = {
    gate: "gates.names",
    ablation: "ablation.heads",
    entropy: "attention_entropy",
  };
  const wanted = names[what] ?? "sim";
  return tables.includes(wanted) ? wanted : (tables[0] ?? wanted);
}

/** A command that prints, or opens, what the view shows. */
export function commandOf(app: App): string {
  const { state, hello } = app;
  const input = inputShown(app);
  const tab = state.tab.value;
  const open = `conoscope explore ${hello.paths.map(shellText).join(" ") || "MODEL"}`;
  if (!input || tab === "cones" || tab === "heads" || input.pair !== null) return open;
  const model = shellText(sourceOf(app, input.model));
  const words = `--words=${shellText(replaced(input))}`;
  if (tab === "words") return `conoscope explain ${model} ${words} --map ${shellText(state.method.value)}`;
  if (tab === "head") return `conoscope explain ${model} ${words} --map attention:layer=${state.layer.value}`;
  return open;
}
