/** A client that checks a periodic body as it arrives, keeps none of it, and may stay behind another client. */

import { once } from 'node:events';
import { get, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { createWaiters } from '../../../src/cache/fill/readers.ts';
import { isPeriodic } from '../values/periodic-body.ts';

/** Options of a download. */
export interface DownloadOptions {
  /** The value of a Range field, with the offset at which its one range begins. */
  readonly range?: { readonly value: string; readonly start: number };
  readonly headers?: OutgoingHttpHeaders;
  /** Reads on only when the leader is this many bytes ahead, or has ended. */
  readonly behind?: { readonly leader: Download; readonly bytes: number };
}

/** The response that was downloaded. */
export interface Downloaded {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: number;
}

/** A running download. */
export class Download {
  /** Resolves when the head has arrived. Rejects with Node's error. */
  readonly begun: Promise<void>;
  /** Resolves at the end of a complete body. Rejects where the body is cut or has wrong bytes. */
  readonly ended: Promise<Downloaded>;
  readonly #waiters = createWaiters();
  #bytes = 0;
  #isOver = false;

  constructor(url: string, { range, headers, behind }: DownloadOptions = {}) {
    const fields = { ...headers, ...(range === undefined ? {} : { range: range.value }) };
    const responded = once(get(url, { headers: fields, agent: false }), 'response');
    this.begun = responded.then(() => undefined);
    this.ended = responded
      .then(([response]: IncomingMessage[]) => this.#read(response as IncomingMessage, range?.start ?? 0, behind))
      .finally(() => {
        this.#isOver = true;
        this.#waiters.changed();
      });
    // A test may await only one of the two; the other must not be an unhandled rejection.
    this.begun.catch(() => undefined);
    this.ended.catch(() => undefined);
  }

  async #read(response: IncomingMessage, start: number, behind: DownloadOptions['behind']): Promise<Downloaded> {
    const { statusCode: status = 0 } = response;
    if (status !== 200 && status !== 206) throw new Error(`status ${status}`);
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (!isPeriodic(chunk, start + this.#bytes)) throw new Error(`wrong bytes after ${start + this.#bytes}`);
      this.#bytes += chunk.length;
      this.#waiters.changed();
      if (behind !== undefined) await behind.leader.#whenAt(this.#bytes + behind.bytes);
    }
    return { status, headers: response.headers, bytes: this.#bytes };
  }

  #whenAt(bytes: number): Promise<void> {
    return this.#waiters.wait(() => this.#isOver || this.#bytes >= bytes);
  }
}
