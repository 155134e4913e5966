/** Lent buffers of a response are given back when the system has taken their bytes, and not before. */

import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { describe, expect, it } from 'vitest';
import type { Body, BodyStream, NextChunk, ProxyResponse } from '../../../src/http/message.ts';
import { type Carrier, openListener } from '../../support/proxies/open-listener.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';

const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
const chunkBytes = 64 * 1024;

/** Lends buffers for responses, and wipes each buffer when it is given back. */
class Lender {
  lent = 0;
  givenBack = 0;
  /** The most buffers that were lent at the same time. */
  mostOut = 0;
  delivered = 0;
  readonly #sizeBytes: number;
  readonly #kind: 'bytes' | 'stream';

  constructor(kind: 'bytes' | 'stream', sizeBytes: number) {
    this.#kind = kind;
    this.#sizeBytes = sizeBytes;
  }

  readonly respond = (): ProxyResponse => ({
    status: 200,
    fields: [],
    body:
      this.#kind === 'bytes' ? this.#bytes() : { kind: 'stream', sizeBytes: this.#sizeBytes, stream: this.#stream() },
    onDelivered: () => {
      this.delivered += 1;
    },
  });

  #lend(start: number, end: number): Buffer {
    this.lent += 1;
    this.mostOut = Math.max(this.mostOut, this.lent - this.givenBack);
    return Buffer.from(patternBytes(start, end));
  }

  #giveBack(chunk: Uint8Array): void {
    this.givenBack += 1;
    chunk.fill(0);
  }

  #bytes(): Body {
    const bytes = this.#lend(0, this.#sizeBytes);
    return { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes], giveBack: () => this.#giveBack(bytes) };
  }

  #stream(): BodyStream {
    let offset = 0;
    const take = (): NextChunk => {
      const end = Math.min(offset + chunkBytes, this.#sizeBytes);
      if (offset === end) return 'end';
      const chunk = this.#lend(offset, end);
      offset = end;
      return chunk;
    };
    return {
      take,
      giveBack: (chunk) => this.#giveBack(chunk),
      close: () => {},
      async *[Symbol.asyncIterator]() {
        for (let chunk = take(); typeof chunk !== 'string'; chunk = take()) yield chunk;
      },
    };
  }
}

// The last size is more than a system buffers for a client that does not read.
const sizes = [100, 20_000, 1_000_000, 16 * 1024 * 1024];
const kinds = ['bytes', 'stream'] as const;

describe('a lent buffer', () => {
  const rows = (['tcp', 'tls'] as const).flatMap((carrier) =>
    kinds.flatMap((kind) => sizes.map((size): [Carrier, 'bytes' | 'stream', number] => [carrier, kind, size])),
  );
  it.each(rows)('over %s as %s, of %i bytes, is given back when they have left', async (carrier, kind, sizeBytes) => {
    const lender = new Lender(kind, sizeBytes);
    await using listener = await openListener(lender.respond, { carrier });
    await using client = await listener.connect();
    client.send(request);
    await expect.poll(() => lender.lent).toBeGreaterThan(0);
    if (sizeBytes > 1e7) expect(lender.givenBack).toBeLessThan(sizeBytes / chunkBytes);
    const response = await client.response();
    expect(response?.body.equals(patternBytes(0, sizeBytes))).toBe(true);
    await expect.poll(() => lender.delivered).toBe(1);
    await expect.poll(() => lender.givenBack).toBe(lender.lent);
    expect(lender.mostOut).toBeLessThanOrEqual(2);
  });

  it.each(kinds.flatMap((kind) => sizes.map((size): ['bytes' | 'stream', number] => [kind, size])))(
    'over HTTP/2 as %s, of %i bytes, is given back when they have left',
    async (kind, sizeBytes) => {
      const lender = new Lender(kind, sizeBytes);
      await using listener = await openListener(lender.respond, { http2: true });
      const session = connectHttp2(`http://127.0.0.1:${listener.port}`);
      const stream = session.request({ ':path': '/x' });
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      await once(stream, 'end');
      expect(Buffer.concat(chunks).equals(patternBytes(0, sizeBytes))).toBe(true);
      await expect.poll(() => lender.delivered).toBe(1);
      await expect.poll(() => lender.givenBack).toBe(lender.lent);
      expect(lender.mostOut).toBeLessThanOrEqual(4);
      await new Promise<void>((resolve) => session.close(resolve));
    },
  );

  it('is not given back where the client leaves before taking it', async () => {
    const lender = new Lender('bytes', 32 * 1024 * 1024);
    await using listener = await openListener(lender.respond);
    const client = await listener.connect();
    client.send(request);
    await expect.poll(() => lender.lent).toBe(1);
    client.socket.resetAndDestroy();
    await expect.poll(() => lender.delivered).toBe(1);
    expect(lender.givenBack).toBe(0);
  });
});
