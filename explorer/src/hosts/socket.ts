/** The local page: one websocket to the server that served it. */
import type { Hello, Reply } from "../protocol";
import type { Host, RequestOptions } from "./host";
import { Pending } from "./pending";

const LOST = "The connection to conoscope is lost: start the command again and open the address that it prints";
const REASONS: Record<number, string> = {
  1008: "conoscope refuses this page: open the address that the command printed",
  4001: "The page asked too much at once: reload it",
};

export class SocketHost implements Host {
  readonly kind = "page";
  readonly live = true;
  private readonly pending: Pending;
  private socket: WebSocket;
  private queue: string[] = [];

  constructor(private readonly url: string) {
    this.pending = new Pending((message) => this.send(JSON.stringify(message)));
    this.socket = this.open();
  }

  async hello(options?: RequestOptions): Promise<Hello> {
    return (await this.request<Hello>("hello", {}, options)).data;
  }

  request<D>(verb: string, params: object, options?: RequestOptions): Promise<Reply<D>> {
    return this.pending.ask<D>(verb, params, options);
  }

  private open(): WebSocket {
    const socket = new WebSocket(this.url);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      for (const message of this.queue) socket.send(message);
      this.queue = [];
    });
    socket.addEventListener("message", (event) => {
      if (event.data instanceof ArrayBuffer) this.pending.read(event.data);
    });
    socket.addEventListener("close", (event) => {
      this.queue = [];
      this.pending.fail(REASONS[event.code] ?? LOST);
    });
    return socket;
  }

  private send(message: string): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(message);
    else {
      // A laptop that slept has lost its connection, but the server may be there still.
      if (this.socket.readyState >= WebSocket.CLOSING) this.socket = this.open();
      this.queue.push(message);
    }
  }
}

/** The address of the websocket in the folder of a page. */
export function addressOf(page: Location | URL, folder = "/"): string {
  const url = new URL(`${folder}socket`, page.href);
  url.protocol = page.protocol === "https:" ? "wss:" : "ws:";
  url.search = "";
  url.hash = "";
  return url.href;
}
