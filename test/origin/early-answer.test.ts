/** An origin that answers while the request's body is on its way, and closes: the answer counts, not the write error. */

import { describe, expect, it } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { openScriptedOrigin, type Play } from '../support/origins/scripted-origin.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const refusal = 'HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\ntoo large';
const notFramed = 'HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\nwho?';

/** A body that sends on until it is closed; `hold` keeps it from sending its second part. */
function endless(hold: Promise<unknown>): BodyStream {
  let isClosed = false;
  return {
    async *[Symbol.asyncIterator]() {
      yield Buffer.alloc(1024);
      await hold;
      while (!isClosed) {
        yield Buffer.alloc(64 * 1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    close() {
      isClosed = true;
    },
  };
}

/** Sends bytes, ends the connection in some way, and lets the request go on when that has happened. */
const answerEarly =
  (bytes: string, how: 'cut' | 'end' | 'endBare', over: () => void): Play =>
  async (exchange) => {
    if (bytes !== '') await exchange.send(bytes);
    exchange[how]();
    setImmediate(() => setImmediate(over));
  };

describe.each([
  ['http', undefined],
  ['https', testCertificate],
] as const)('an origin over %s that answers early', (_scheme, tls) => {
  it.each([
    ['and resets the connection', refusal, 'cut', '413 too large'],
    ['and ends its side', refusal, 'end', '413 too large'],
    ['without a length, and ends its side', notFramed, 'end', '401 who?'],
    ['without a length, and resets the connection', notFramed, 'cut', '401 who? origin_reset'],
    ['with no head at all', '', 'cut', 'origin_reset'],
  ] as const)('%s', async (_name, bytes, how, want) => {
    for (let round = 0; round < 10; round += 1) {
      const over = Promise.withResolvers<void>();
      await using server = await openScriptedOrigin(answerEarly(bytes, how, over.resolve), ...(tls ? [{ tls }] : []));
      const origin = createUndiciOrigin(
        originOptions({ url: server.url, tls: { ca: testAuthority, rejectUnauthorized: true } }),
      );
      const body = endless(over.promise);
      const got = await origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes: 1e9 })).then(
        async (response) => {
          const { bytes: content, error } = await readBody(response);
          return [`${response.status} ${content}`, ...(error === undefined ? [] : [error])].join(' ');
        },
        (thrown: unknown) => codeOf(thrown),
      );
      // Over TLS the missing close_notify may be seen first.
      expect(got.replace('origin_tls_truncated', 'origin_reset')).toBe(want);
      await origin.close();
    }
  });
});
