import { effect } from "@preact/signals";
import { describe, expect, test, vi } from "vitest";
import { Pending } from "../src/hosts/pending";
import { addressOf } from "../src/hosts/socket";
import { repliesOf, StaticHost } from "../src/hosts/static";
import { WidgetHost } from "../src/hosts/widget";
import { HELLO, MockHost } from "../src/mock";
import { Cancelled, encodeFrame, keyOf, ReplyError } from "../src/protocol";
import { Store } from "../src/store";

const reply = (id: number, data: unknown = {}) => encodeFrame(id, { data, arrays: {} });

describe("requests that wait", () => {
  test("each gets its own frame, in whatever order they come", async () => {
    const pending = new Pending(() => {});
    const [one, two] = [pending.ask("run", {}), pending.ask("answer", {})];
    pending.read(reply(2, "second"));
    pending.read(reply(1, "first"));
    expect([(await one).data, (await two).data]).toEqual(["first", "second"]);
    expect(pending.size).toBe(0);
  });

  test("a newer one of a lane ends the older", async () => {
    const sent: object[] = [];
    const pending = new Pending((message) => sent.push(message));
    const old = pending.ask("run", { text: "a" }, { lane: "run" });
    const other = pending.ask("run", { text: "a" }, { lane: "other" });
    const young = pending.ask("run", { text: "ab" }, { lane: "run" });
    await expect(old).rejects.toBeInstanceOf(Cancelled);
    pending.read(reply(1, "late"));
    pending.read(reply(3, "young"));
    pending.read(reply(2, "other"));
    expect([(await young).data, (await other).data]).toEqual(["young", "other"]);
    expect(sent[2]).toEqual({ id: 3, verb: "run", lane: "run", params: { text: "ab" } });
  });

  test("one that is taken back says so to the library, once", async () => {
    const sent: object[] = [];
    const pending = new Pending((message) => sent.push(message));
    const abort = new AbortController();
    const asked = pending.ask("words", {}, { signal: abort.signal });
    abort.abort();
    await expect(asked).rejects.toBeInstanceOf(Cancelled);
    expect(sent.slice(1)).toEqual([{ cancel: 1 }]);
  });

  test("a lost connection ends all with its reason", async () => {
    const pending = new Pending(() => {});
    const asked = pending.ask("run", {});
    pending.fail("gone");
    await expect(asked).rejects.toThrow(new ReplyError("gone"));
  });
});

test("the socket is in the folder of the page, without its token", () => {
  const page = new URL("http://127.0.0.1:8123/?token=abc#text=x");
  expect(addressOf(page, "/of-this-page/")).toBe("ws://127.0.0.1:8123/of-this-page/socket");
});

describe("a notebook", () => {
  test("hears its own page's messages alone", async () => {
    const listeners: ((content: unknown, buffers: DataView[]) => void)[] = [];
    const sent: { page: string; request?: { id: number } }[] = [];
    const model = {
      send: (content: unknown) => sent.push(content as { page: string }),
      on: (_event: string, listener: (content: unknown, buffers: DataView[]) => void) => listeners.push(listener),
      off: () => {},
    };
    const host = new WidgetHost(model as never);
    const asked = host.request("answer", {});
    const { page, request } = sent[0]!;
    const frame = new DataView(reply(request!.id, "mine").buffer);
    listeners[0]!({ page: "another" }, [new DataView(reply(request!.id, "not mine").buffer)]);
    listeners[0]!({ page }, [frame]);
    expect((await asked).data).toBe("mine");
    host.close();
    expect(sent.at(-1)).toEqual({ page, closed: true });
  });
});

describe("a page on disk", () => {
  const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
  const text = JSON.stringify({
    notes: ["left out"],
    command: "conoscope explore out",
    replies: { [keyOf("hello", {})]: base64(reply(0, HELLO)) },
  });

  test("has the replies that were computed, whatever is empty in the request", async () => {
    const { frames, notes, command } = repliesOf(text);
    const host = new StaticHost(frames, notes, command);
    expect(await host.hello()).toEqual(HELLO);
    expect([host.live, notes]).toEqual([false, ["left out"]]);
  });

  test("says of others that they are not there, and how to see them", async () => {
    const { frames, notes, command } = repliesOf(text);
    const asked = new StaticHost(frames, notes, command).request("run", { text: "other" });
    await expect(asked).rejects.toThrow("This is not in this page; to see it live: conoscope explore out");
  });

  test("with damaged replies is an error of one line", () => {
    expect(() => repliesOf('{"replies": 1}')).toThrow(ReplyError);
  });
});

describe("the store", () => {
  test("asks once for equal requests", async () => {
    const host = new MockHost();
    const store = new Store(host);
    const input = { model: 0, text: "a", pair: null, edits: {} };
    const one = store.ask("answer", input);
    const two = store.ask("answer", { edits: { erase: [] }, text: "a", model: 0 });
    expect(two).toBe(one);
    await vi.waitFor(() => expect(one.value.status).toBe("done"));
    expect(host.asked).toHaveLength(1);
  });

  test("asks again for what a newer key had ended", async () => {
    const host = new MockHost();
    const store = new Store(host);
    const ask = (text: string) => store.ask("answer", { model: 0, text }, "answer");
    const first = ask("a");
    ask("ab");
    await vi.waitFor(() => expect(first.value.status).toBe("idle"));
    ask("a");
    await vi.waitFor(() => expect(first.value.status).toBe("done"));
    expect(host.asked.map(({ params }) => (params as { text: string }).text)).toEqual(["a", "ab", "a"]);
  });

  test("asks again for what grows in the background, and for nothing else", async () => {
    const host = new MockHost();
    const store = new Store(host);
    const grid = () => store.ask("grid", { result: 0, what: "entropy" });
    const answer = () => store.ask("answer", { model: 0, text: "a" });
    const [first, kept] = [grid(), answer()];
    await vi.waitFor(() => expect([first.value.status, kept.value.status]).toEqual(["done", "done"]));
    store.forgetGrowing();
    expect([first.value.status, kept.value.status]).toEqual(["idle", "done"]);
    grid();
    answer();
    await vi.waitFor(() => expect(first.value.status).toBe("done"));
    expect(host.asked.map(({ verb }) => verb)).toEqual(["grid", "answer", "grid"]);
  });

  test("lets who only reads a reply follow it, without sending anything", async () => {
    const host = new MockHost();
    const store = new Store(host);
    const seen: string[] = [];
    const stop = effect(() => {
      seen.push(store.peek("answer", { model: 0, text: "a" }).status);
    });
    expect(host.asked).toEqual([]);
    store.ask("answer", { model: 0, text: "a" });
    await vi.waitFor(() => expect(seen).toEqual(["idle", "loading", "done"]));
    stop();
  });

  test("keeps an error until it is tried again", async () => {
    const store = new Store(new MockHost());
    const asked = store.ask("nothing", {});
    await vi.waitFor(() => expect(asked.value).toEqual({ status: "error", error: "This model has no nothing" }));
    store.retry("nothing", {});
    expect(store.peek("nothing", {})).toEqual({ status: "idle" });
  });
});
