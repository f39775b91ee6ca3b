import { expect, test } from "vitest";
import { decodeFrame, encodeFrame, fromHalf, keyOf, ReplyError } from "../src/protocol";

/** A frame with this header and these bytes after it. */
function frameOf(header: unknown, body = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const length = Math.ceil((4 + json.length) / 8) * 8 - 4;
  const out = new Uint8Array(4 + length + body.length).fill(32, 4, 4 + length);
  new DataView(out.buffer).setUint32(0, length, true);
  out.set(json, 4);
  out.set(body, 4 + length);
  return out;
}

function withArray(entry: object, bytes = 8): Uint8Array {
  const whole = { name: "x", dtype: "f4", shape: [2], offset: 0, bytes: 8, ...entry };
  return frameOf({ id: 1, ok: true, data: {}, arrays: [whole] }, new Uint8Array(bytes));
}

test("a reply that is encoded and decoded is the same", () => {
  const arrays = {
    x: { shape: [3], values: new Float32Array([1.5, Number.NaN, -2]) },
    n: { shape: [1, 2], values: new Int32Array([-1, 2]) },
    b: { shape: [1], values: new Uint8Array([255]) },
  };
  const frame = decodeFrame(encodeFrame(7, { data: { a: "é" }, arrays }));
  expect(frame).toEqual({ id: 7, type: "reply", reply: { data: { a: "é" }, arrays } });
});

test("a frame that begins anywhere in a buffer is read", () => {
  const bytes = encodeFrame(3, { data: {}, arrays: { x: { shape: [2], values: new Float32Array([1, 2]) } } });
  for (let shift = 0; shift < 9; shift++) {
    const held = new Uint8Array(bytes.length + shift);
    held.set(bytes, shift);
    const frame = decodeFrame(new DataView(held.buffer, shift));
    expect(frame.type === "reply" && [...frame.reply.arrays.x!.values]).toEqual([1, 2]);
  }
});

test("half floats are the numbers that they stand for", () => {
  const halves = new Uint16Array([0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00, 0x7e00, 0x0000, 0x3555]);
  const [one, two, least, high, low, none, zero, third] = fromHalf(halves);
  expect([one, two, least, high, low, zero]).toEqual([1, -2, 2 ** -24, Infinity, -Infinity, 0]);
  expect(none).toBeNaN();
  expect(third).toBe(0.333251953125);
});

test("errors, progress and withdrawals are told apart", () => {
  expect(decodeFrame(frameOf({ id: 1, ok: false, error: "no model" }))).toEqual({
    id: 1,
    type: "error",
    error: "no model",
  });
  expect(decodeFrame(frameOf({ id: 1, progress: 0.4, doing: "pass" }))).toMatchObject({
    type: "progress",
    progress: 0.4,
  });
  expect(decodeFrame(frameOf({ id: 1, cancelled: true }))).toEqual({ id: 1, type: "cancelled" });
});

test.each([
  ["nothing", new Uint8Array(0)],
  ["a header beyond its end", new Uint8Array([255, 0, 0, 0, 1])],
  ["a header of no JSON", frameOf("{]")],
  ["a header that is a list", frameOf([])],
  ["an array beyond its end", withArray({ offset: 8 })],
  ["an array before its beginning", withArray({ offset: -8 })],
  ["an array of another size than its shape", withArray({ shape: [3] })],
  ["a shape of negative sizes", withArray({ shape: [-1, -2] })],
  ["a shape of fractions", withArray({ shape: [0.5, 4] })],
  ["an unknown dtype", withArray({ dtype: "f8" })],
  ["a dtype of Object's", withArray({ dtype: "constructor" })],
  ["an offset between numbers", withArray({ offset: 2, bytes: 4, shape: [1] })],
])("%s is an error, not a crash", (_what, bytes) => {
  expect(() => decodeFrame(bytes)).toThrow(ReplyError);
});

test("an array called __proto__ is an array", () => {
  const frame = decodeFrame(withArray({ name: "__proto__" }));
  expect(frame.type === "reply" && Object.keys(frame.reply.arrays)).toEqual(["__proto__"]);
});

test("a request's key has sorted names and nothing empty", () => {
  const params = {
    text: "é",
    model: 0,
    pair: null,
    edits: { erase: [], replace: {}, ablate: [[2, 5]] },
    centred: false,
  };
  expect(keyOf("run", params)).toBe('["run",{"edits":{"ablate":[[2,5]]},"model":0,"text":"é"}]');
  expect(keyOf("run", { model: 0, text: "é", edits: { ablate: [[2, 5]] } })).toBe(keyOf("run", params));
  expect(keyOf("hello", {})).toBe('["hello",{}]');
});
