/** The notebook: requests and frames are custom messages of an anywidget model. */
import { type Hello, isRecord, type Reply } from "../protocol";
import type { Host, RequestOptions } from "./host";
import { Pending } from "./pending";

export interface WidgetModel {
  send(content: unknown): void;
  on(event: "msg:custom", listener: (content: unknown, buffers: (DataView | ArrayBuffer)[]) => void): void;
  off(event: "msg:custom", listener: (content: unknown, buffers: (DataView | ArrayBuffer)[]) => void): void;
}

export class WidgetHost implements Host {
  readonly kind = "notebook";
  readonly live = true;
  private readonly pending: Pending;
  // One model may have several views, each with its own requests.
  private readonly page = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private readonly listen = (content: unknown, buffers: (DataView | ArrayBuffer)[]) => {
    if (!isRecord(content) || content.page !== this.page) return;
    for (const buffer of buffers) this.pending.read(buffer);
  };

  constructor(private readonly model: WidgetModel) {
    this.pending = new Pending((message) => model.send({ page: this.page, request: message }));
    model.on("msg:custom", this.listen);
  }

  async hello(options?: RequestOptions): Promise<Hello> {
    return (await this.request<Hello>("hello", {}, options)).data;
  }

  request<D>(verb: string, params: object, options?: RequestOptions): Promise<Reply<D>> {
    return this.pending.ask<D>(verb, params, options);
  }

  close(): void {
    this.model.send({ page: this.page, closed: true });
    this.model.off("msg:custom", this.listen);
    this.pending.fail("The notebook's cell is closed");
  }
}
