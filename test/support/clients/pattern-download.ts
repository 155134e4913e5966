/** A client on a connection of its own that reads a body of a pattern, and verifies each byte as it comes. */

import { once } from 'node:events';
import { type ClientRequest, get, type IncomingMessage } from 'node:http';
import { patternBytes } from '../values/pattern-body.ts';

/** One download of the whole. */
export class PatternDownload {
  readonly #request: ClientRequest;
  /** How many bytes have come, all of them right. */
  bytes = 0;
  /** Resolves with their number at the end of a whole body. Rejects where it is cut, or not the right one. */
  readonly ended: Promise<number>;

  constructor(url: string) {
    this.#request = get(url, { agent: false });
    this.ended = this.#read();
    this.ended.catch(() => {});
  }

  /** The port that it asks from. */
  get port(): number {
    return this.#request.socket?.localPort ?? 0;
  }

  async #read(): Promise<number> {
    const [response] = (await once(this.#request, 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (!chunk.equals(patternBytes(this.bytes, this.bytes + chunk.length))) {
        throw new Error(`wrong bytes after ${this.bytes}`);
      }
      this.bytes += chunk.length;
    }
    return this.bytes;
  }
}
