/** A client on its own connection that reads a pattern body, and verifies each byte as it arrives. */

import { once } from 'node:events';
import { type ClientRequest, get, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { patternBytes } from '../values/pattern-body.ts';

/** A running download of a whole body. */
export class PatternDownload {
  readonly #request: ClientRequest;
  /** Number of bytes so far, all of them right. */
  bytes = 0;
  /** Resolves with `bytes` at the end of a complete body. Rejects where the body is cut or has wrong bytes. */
  readonly ended: Promise<number>;

  constructor(url: string, headers: OutgoingHttpHeaders = {}) {
    this.#request = get(url, { agent: false, headers });
    this.ended = this.#read();
    this.ended.catch(() => {});
  }

  /** The client's port. */
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
