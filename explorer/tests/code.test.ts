import { signal } from "@preact/signals";
import { describe, expect, test } from "vitest";
import { commandOf, pythonOf, pythonText, replaced, shellText } from "../src/code";
import type { App } from "../src/context";
import { HELLO, MockHost } from "../src/mock";
import { settle } from "../src/settle";
import { createState, type Tab } from "../src/state";
import { Store } from "../src/store";

function appWith(text: string, tab: Tab): App {
  const host = new MockHost();
  const state = createState();
  state.text.value = text;
  state.tab.value = tab;
  settle(state, HELLO);
  return { host, store: new Store(host), state, hello: HELLO, exportable: signal(null) };
}

describe("texts in code", () => {
  test("what cannot be seen is escaped", () => {
    expect(pythonText('say "a"\n\u202e\u2028')).toBe('"say \\"a\\"\\n\\u202e\\u2028"');
    expect(pythonText("\u{e0041}")).toBe('"\\U000e0041"');
    expect(shellText("a\u202eb\n'")).toBe("$'a\\u202eb\\n\\''");
  });

  test("a shell reads a text as one word", () => {
    expect(shellText("plain/path-1.0")).toBe("plain/path-1.0");
    expect(shellText("it's $(rm -rf ~) `x`")).toBe("'it'\\''s $(rm -rf ~) `x`'");
    expect(shellText("")).toBe("''");
  });

  test("replaced words are in the text, spaces stay", () => {
    const input = { model: 0, text: " a  b\nc", pair: null, edits: { replace: { 1: "x y", 9: "no" }, erase: [0] } };
    expect(replaced(input)).toBe(" a  x y\nc");
  });
});

describe("code of a view", () => {
  test("names the head that is shown, which Python counts from 0 within its layer", () => {
    const app = appWith("the soup", "head");
    app.state.layer.value = 2;
    app.state.head.value = 3;
    expect(pythonOf(app)).toContain('traced = cs.trace("bistro-small", ["the soup"])');
    expect(pythonOf(app)).toContain('traced["weights"][2][2]');
    expect(commandOf(app)).toBe("conoscope explain bistro-small --words='the soup' --map attention:layer=2");
  });

  test("names the method that is chosen", () => {
    const app = appWith("the soup", "words");
    app.state.method.value = "gradient";
    expect(pythonOf(app)).toContain('cs.explain("bistro-small", ["the soup"], "gradient")[0]');
  });

  test("says what it leaves out", () => {
    const app = appWith("the soup", "words");
    app.state.edits.value = { erase: [0], ablate: [[1, 1]] };
    expect(pythonOf(app)).toContain("# Without what the explorer changes live: erased words, heads taken out.");
  });

  test("a text that looks like an option stays a text", () => {
    expect(commandOf(appWith("--help me", "words"))).toContain("--words='--help me'");
  });

  test("a result that lies in no folder is measured again", () => {
    const app = appWith("the soup", "cones");
    app.hello = { ...HELLO, results: [{ ...HELLO.results[0]!, source: "" }] };
    expect(pythonOf(app)).toContain('result = cs.measure("bistro-small", "bistro:test", limit=1000)');
  });

  test("numbers over a corpus come from the result", () => {
    const app = appWith("the soup", "heads");
    app.state.grid.value = "corpus_gate";
    expect(pythonOf(app)).toBe(
      'import conoscope as cs\n\nresult = cs.Result.load("out")\nprint(result["gates.names"])\n',
    );
  });
});
