/** Requests that wait for their frames, whatever carries them. */
import { Cancelled, decodeFrame, type Reply, ReplyError } from "../protocol";
import type { RequestOptions } from "./host";

interface Waiting {
  resolve: (reply: Reply) => void;
  reject: (error: Error) => void;
  options: RequestOptions;
}

export class Pending {
  private readonly waiting = new Map<number, Waiting>();
  private readonly lanes = new Map<string, number>();
  private next = 1;

  constructor(private readonly send: (message: object) => void) {}

  /** Sends a request and returns what its frame says. */
  ask<D>(verb: string, params: object, options: RequestOptions = {}): Promise<Reply<D>> {
    const id = this.next++;
    const { lane, signal } = options;
    if (signal?.aborted) return Promise.reject(new Cancelled());
    if (lane !== undefined) {
      // The host cancels the older one; its promise ends here at once, so that no late reply is shown.
      const older = this.lanes.get(lane);
      if (older !== undefined) this.end(older, new Cancelled());
      this.lanes.set(lane, id);
    }
    return new Promise<Reply<D>>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (reply: Reply) => void, reject, options });
      signal?.addEventListener("abort", () => this.cancel(id), { once: true });
      this.send(lane === undefined ? { id, verb, params } : { id, verb, lane, params });
    });
  }

  /** Reads one frame and settles the request that it answers. */
  read(buffer: ArrayBuffer | DataView | Uint8Array): void {
    const frame = decodeFrame(buffer);
    const waiting = this.waiting.get(frame.id);
    if (!waiting) return;
    if (frame.type === "progress") waiting.options.onProgress?.(frame.progress, frame.doing);
    else if (frame.type === "reply") this.end(frame.id, null, frame.reply);
    else this.end(frame.id, frame.type === "error" ? new ReplyError(frame.error) : new Cancelled());
  }

  /** Ends all that waits with the same line. */
  fail(line: string): void {
    for (const id of [...this.waiting.keys()]) this.end(id, new ReplyError(line));
  }

  get size(): number {
    return this.waiting.size;
  }

  private cancel(id: number): void {
    if (!this.waiting.has(id)) return;
    this.send({ cancel: id });
    this.end(id, new Cancelled());
  }

  private end(id: number, error: Error | null, reply?: Reply): void {
    const waiting = this.waiting.get(id);
    if (!waiting) return;
    this.waiting.delete(id);
    const { lane } = waiting.options;
    if (lane !== undefined && this.lanes.get(lane) === id) this.lanes.delete(lane);
    if (error) waiting.reject(error);
    else waiting.resolve(reply!);
  }
}
