import { expect, test } from "vitest";
import { decodeFrame, encodeFrame } from "../src/protocol";

test("a reply that is encoded and decoded is the same", () => {
  const values = new Float32Array([1.5, Number.NaN, -2]);
  const frame = decodeFrame(encodeFrame(7, { data: { a: "é" }, arrays: { x: { shape: [3], values } } }));
  expect(frame).toEqual({ id: 7, type: "reply", reply: { data: { a: "é" }, arrays: { x: { shape: [3], values } } } });
});
