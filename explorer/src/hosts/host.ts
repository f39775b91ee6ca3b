/** What the page asks its questions of: a server, a notebook, a page's own replies, or made-up ones. */
import type { Hello, Reply } from "../protocol";

export interface RequestOptions {
  /** Requests of the same lane replace each other: a newer one cancels the older. */
  lane?: string;
  onProgress?: (progress: number, doing: string) => void;
  signal?: AbortSignal;
}

export interface Host {
  readonly kind: "page" | "notebook" | "export" | "mock";
  /** False where only replies that are in the page can be shown, so that nothing can be edited. */
  readonly live: boolean;
  hello(options?: RequestOptions): Promise<Hello>;
  /** The reply, or an error: ReplyError with a line to show, Cancelled where nothing is to be shown. */
  request<D = unknown>(verb: string, params: object, options?: RequestOptions): Promise<Reply<D>>;
}
