/** An origin of one file that stops in the middle of its first response until the test calls `goOn`. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { patternBytes } from '../values/pattern-body.ts';

/** Whether the origin has ranges, and an ETag. */
export interface FileManners {
  readonly hasRanges: boolean;
  readonly hasValidator: boolean;
}

/** A request: `whole`, or Range and If-Range (`bytes=5- if "v1"`); and the port of its sender. */
export interface FileQuestion {
  readonly asked: string;
  readonly port: number;
}

/** The origin. */
export class SlowFileOrigin implements AsyncDisposable {
  readonly sizeBytes: number;
  readonly questions: FileQuestion[] = [];
  readonly #manners: FileManners;
  readonly #heldAt: number;
  readonly #server: Server;
  readonly #going = Promise.withResolvers<void>();

  private constructor(sizeBytes: number, manners: FileManners) {
    this.sizeBytes = sizeBytes;
    this.#manners = manners;
    this.#heldAt = Math.floor(sizeBytes / 2);
    this.#server = createServer((request, response) => void this.#answer(request, response).catch(() => {}));
  }

  static async open(sizeBytes: number, manners: FileManners): Promise<SlowFileOrigin> {
    const origin = new SlowFileOrigin(sizeBytes, manners);
    origin.#server.listen(0, '127.0.0.1');
    await once(origin.#server, 'listening');
    return origin;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Lets the first response go on to its end. */
  goOn(): void {
    this.#going.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.goOn();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #answer({ headers, socket }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { range, 'if-range': condition } = headers;
    this.questions.push({
      asked: range === undefined ? 'whole' : `${range}${condition === undefined ? '' : ` if ${condition}`}`,
      port: socket.remotePort ?? 0,
    });
    const isFirst = this.questions.length === 1;
    const { hasRanges, hasValidator } = this.#manners;
    const [, first] = (hasRanges ? /^bytes=(\d+)-$/.exec(range ?? '') : undefined) ?? [];
    const start = Number(first ?? 0);
    const end = this.sizeBytes;
    response.writeHead(first === undefined ? 200 : 206, {
      'cache-control': 'max-age=600',
      'content-length': end - start,
      ...(hasValidator ? { etag: '"v1"' } : {}),
      ...(first === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${end}` }),
    });
    const heldAt = isFirst ? this.#heldAt : start;
    response.write(patternBytes(start, heldAt));
    if (isFirst) await this.#going.promise;
    response.end(patternBytes(heldAt, end));
  }
}
