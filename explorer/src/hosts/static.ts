/** The static page: replies computed beforehand, in the page as base64 frames keyed by their request. */
import { decodeFrame, type Hello, isRecord, keyOf, type Reply, ReplyError } from "../protocol";
import type { Host } from "./host";

const ABSENT = "This is not in this page";

export class StaticHost implements Host {
  readonly kind = "export";
  readonly live = false;

  constructor(
    private readonly frames: ReadonlyMap<string, string>,
    readonly notes: readonly string[] = [],
    readonly command = "",
  ) {}

  async hello(): Promise<Hello> {
    return (await this.request<Hello>("hello", {})).data;
  }

  async request<D>(verb: string, params: object): Promise<Reply<D>> {
    const frame = this.frames.get(keyOf(verb, params));
    if (frame === undefined) throw new ReplyError(this.absent());
    const decoded = decodeFrame(fromBase64(frame));
    if (decoded.type === "error") throw new ReplyError(decoded.error);
    if (decoded.type !== "reply") throw new ReplyError(this.absent());
    return decoded.reply as Reply<D>;
  }

  private absent(): string {
    return this.command ? `${ABSENT}; to see it live: ${this.command}` : ABSENT;
  }

  has(verb: string, params: object): boolean {
    return this.frames.has(keyOf(verb, params));
  }
}

/** What a page's element of replies says: the frames by key, what was left out, and the command that opens it live. */
export function repliesOf(text: string): { frames: Map<string, string>; notes: string[]; command: string } {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed) || !isRecord(parsed.replies)) throw new ReplyError("The replies of this page are damaged");
  const frames = Object.entries(parsed.replies).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  const notes = Array.isArray(parsed.notes) ? parsed.notes.map(String) : [];
  return { frames: new Map(frames), notes, command: typeof parsed.command === "string" ? parsed.command : "" };
}

function fromBase64(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
