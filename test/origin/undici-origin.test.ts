/** The HTTP/1.1 client of origins, on undici: its requests on the wire, the responses that it returns, and its connections. */

import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import type { BodyStream, InterimResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { ReusableBody } from '../../src/origin/group/resend.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { asUndiciWaits } from '../support/clocks/undici-time.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { openScriptedOrigin, type Play } from '../support/origins/scripted-origin.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { originOptions } from './origin-options.ts';

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood';

/** Returns the code that a fetch fails with. */
async function failureOf(fetching: Promise<unknown>): Promise<string> {
  return fetching.then(
    () => 'no failure',
    (thrown: unknown) => codeOf(thrown),
  );
}

/** A request's body that records whether it was closed. */
function bodyOf(...chunks: (string | Error)[]): BodyStream & { isClosed: boolean } {
  return {
    isClosed: false,
    async *[Symbol.asyncIterator]() {
      for (const chunk of chunks) {
        if (chunk instanceof Error) throw chunk;
        yield Buffer.from(chunk);
      }
    },
    close() {
      this.isClosed = true;
    },
  };
}

describe('the request on the wire', () => {
  const upload = (bodySizeBytes: number | undefined, body?: BodyStream) => ({ method: 'POST', body, bodySizeBytes });
  const rows: [name: string, overrides: () => Partial<OriginRequest>, head: readonly string[]][] = [
    ['a GET', () => ({}), ['GET / HTTP/1.1', 'host: origin.test', 'connection: keep-alive']],
    [
      'the target unchanged',
      () => ({ target: '//a/../%2f?x=%7e&?' }),
      ['GET //a/../%2f?x=%7e&? HTTP/1.1', 'host: origin.test', 'connection: keep-alive'],
    ],
    [
      'fields in order, one line each, in conventional case',
      () => ({
        fields: [
          ['host', 'a.test'],
          ['if-none-match', '"1"'],
          ['x-a', '1'],
          ['via', '1.1 a'],
          ['x-a', ''],
        ],
      }),
      [
        'GET / HTTP/1.1',
        'host: a.test',
        'connection: keep-alive',
        'If-None-Match: "1"',
        'X-A: 1',
        'Via: 1.1 a',
        'X-A: ',
      ],
    ],
    [
      'bytes beyond ASCII as they are',
      () => ({
        fields: [
          ['host', 'a.test'],
          ['x-a', 'caf\xe9'],
        ],
      }),
      ['GET / HTTP/1.1', 'host: a.test', 'connection: keep-alive', 'X-A: caf\xe9'],
    ],
    [
      'no connection-specific field',
      () => ({
        fields: [
          ['host', 'a.test'],
          ['connection', 'close'],
          ['keep-alive', '1'],
          ['upgrade', 'h2c'],
          ['transfer-encoding', 'gzip'],
          ['expect', '100-continue'],
          ['content-length', '9'],
        ],
      }),
      ['GET / HTTP/1.1', 'host: a.test', 'connection: keep-alive'],
    ],
    [
      'a body of known length',
      () => upload(6, bodyOf('abc', 'def')),
      ['POST / HTTP/1.1', 'host: origin.test', 'connection: keep-alive', 'content-length: 6'],
    ],
    [
      'a body of unknown length',
      () => upload(undefined, bodyOf('abc', 'def')),
      ['POST / HTTP/1.1', 'host: origin.test', 'connection: keep-alive', 'transfer-encoding: chunked'],
    ],
    [
      'a POST without a body',
      () => upload(undefined),
      ['POST / HTTP/1.1', 'host: origin.test', 'connection: keep-alive', 'content-length: 0'],
    ],
    [
      'a POST with a body of no bytes',
      () => upload(0, bodyOf()),
      ['POST / HTTP/1.1', 'host: origin.test', 'connection: keep-alive', 'content-length: 0'],
    ],
    [
      'a GET with a body',
      () => ({ ...upload(3, bodyOf('abc')), method: 'GET' }),
      ['GET / HTTP/1.1', 'host: origin.test', 'connection: keep-alive', 'content-length: 3'],
    ],
  ];

  it.each(rows)('%s', async (_name, overrides, head) => {
    await using server = await openScriptedOrigin(good);
    const origin = createUndiciOrigin(originOptions({ url: `${server.url}/base` }));
    await readBody(await origin.fetch(originRequest(overrides())));
    expect(server.requests[0]?.head.split('\r\n')).toEqual(head);
    await origin.close();
  });

  it.each([6, undefined])('carries the body (Content-Length: %s) and closes it', async (bodySizeBytes) => {
    const arrived = Promise.withResolvers<string>();
    await using server = await openScriptedOrigin(async ({ body, send }) => {
      arrived.resolve((await body()).toString());
      await send(good);
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const body = bodyOf('abc', 'def');
    await readBody(await origin.fetch(originRequest({ method: 'PUT', body, bodySizeBytes })));
    expect(await arrived.promise).toBe('abcdef');
    expect(body.isClosed).toBe(true);
    await origin.close();
  });

  it.each([
    ['OPTIONS', '*', 'method_refused'],
    ['CONNECT', 'a.test:443', 'method_refused'],
    ['GET', 'http://other.test/', 'method_refused'],
    ['GET', '/a b', 'malformed_request'],
    ['GET', '/a\r\nX: y', 'malformed_request'],
    ['G T', '/', 'malformed_request'],
  ])('%s %s cannot be sent', async (method, target, code) => {
    await using server = await openScriptedOrigin(good);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const body = bodyOf('abc');
    expect(await failureOf(origin.fetch(originRequest({ method, target, body })))).toBe(code);
    expect([server.connections, body.isClosed]).toEqual([0, true]);
    await origin.close();
  });
});

describe('an upload that fails', () => {
  it.each<[string, BodyStream, number | undefined, string]>([
    [
      'a client that breaks off',
      bodyOf('abc', new ProxyError('request_body_incomplete')),
      undefined,
      'request_body_incomplete',
    ],
    ['a body that breaks off at once', bodyOf(new ProxyError('request_body_incomplete')), 3, 'request_body_incomplete'],
    ['fewer bytes than promised', bodyOf('abc'), 4, 'request_body_incomplete'],
    ['more bytes than promised', bodyOf('abc'), 2, 'request_body_incomplete'],
  ])('%s', async (_name, body, bodySizeBytes, code) => {
    await using server = await openScriptedOrigin(({ closed }) => closed);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    expect(await failureOf(origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes })))).toBe(code);
    await server.allClosed();
    await origin.close();
  });

  it('returns a response that arrives before the body is sent, and closes the body', async () => {
    await using server = await openScriptedOrigin('HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nlong');
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const gone = Promise.withResolvers<void>();
    const body: BodyStream = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('abc');
        await gone.promise;
      },
      close: gone.resolve,
    };
    const response = await origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes: undefined }));
    expect(response.status).toBe(413);
    expect(await readBody(response)).toEqual({ bytes: Buffer.from('long'), error: undefined });
    await gone.promise;
    await server.allClosed();
    await origin.close();
  });
});

describe('the response', () => {
  it('has its fields as sent: order, duplicates, bytes', async () => {
    await using server = await openScriptedOrigin(
      'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX-Latin: caf\xe9\r\nSET-COOKIE: b=2\r\nX-Empty:\r\nX-Padded: \t a  b \t \r\n__proto__: x\r\nContent-Length: 0\r\n\r\n',
    );
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const response = await origin.fetch(originRequest());
    const fields: Fields = [
      ['set-cookie', 'a=1'],
      ['x-latin', 'caf\xe9'],
      ['set-cookie', 'b=2'],
      ['x-empty', ''],
      ['x-padded', 'a  b'],
      ['__proto__', 'x'],
      ['content-length', '0'],
    ];
    expect(response.fields).toEqual(fields);
    await origin.close();
  });

  it('is preceded by its interim responses', async () => {
    await using server = await openScriptedOrigin(
      `HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n${good}`,
    );
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const interims: InterimResponse[] = [];
    const response = await origin.fetch(originRequest({ onInterim: (interim) => interims.push(interim) }));
    expect(interims).toEqual([
      { status: 102, fields: [] },
      {
        status: 103,
        fields: [
          ['link', '</a>'],
          ['link', '</b>'],
        ],
      },
    ]);
    expect((await readBody(response)).bytes.toString()).toBe('good');
    await origin.close();
  });

  it('is not decoded: gzip bytes stay as they are', async () => {
    await using server = await openScriptedOrigin(
      'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00',
    );
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    expect((await readBody(await origin.fetch(originRequest()))).bytes).toEqual(Buffer.from('1f8b0800', 'hex'));
    await origin.close();
  });

  it('is not redirected', async () => {
    await using server = await openScriptedOrigin('HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n');
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    expect((await origin.fetch(originRequest())).status).toBe(302);
    expect(server.requests.length).toBe(1);
    await origin.close();
  });

  it('may be big', async () => {
    const sizeBytes = 3_000_000;
    await using server = await openScriptedOrigin(async ({ send }) => {
      await send(`HTTP/1.1 200 OK\r\nContent-Length: ${sizeBytes}\r\n\r\n`);
      await send(patternBytes(0, sizeBytes));
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const { bytes, error } = await readBody(await origin.fetch(originRequest()));
    expect(error).toBeUndefined();
    expect(bytes.equals(patternBytes(0, sizeBytes))).toBe(true);
    await origin.close();
  });
});

describe('the body', () => {
  const mebibyte = 1024 * 1024;

  it('holds the origin back while it is not read, and does not let that time out', async () => {
    let isSent = false;
    await using server = await openScriptedOrigin(
      async ({ send }) => {
        await send(`HTTP/1.1 200 OK\r\nContent-Length: ${64 * mebibyte}\r\n\r\n`);
        isSent = await send(new Uint8Array(64 * mebibyte));
      },
      async ({ send, closed }) => {
        await send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n');
        await closed;
      },
    );
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const unread = await origin.fetch(originRequest());
    // Another response, which is silent, serves as the clock: when it times out, the unread one would have timed out as well.
    const silent = await origin.fetch(originRequest());
    expect((await asUndiciWaits(readBody(silent))).error).toBe('origin_timeout');
    expect(isSent).toBe(false);
    const { bytes, error } = await readBody(unread);
    expect([bytes.length, error]).toEqual([64 * mebibyte, undefined]);
    await origin.close();
  });

  it('is read once', async () => {
    await using server = await openScriptedOrigin(good);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const response = await origin.fetch(originRequest());
    await readBody(response);
    expect(await readBody(response)).toEqual({ bytes: Buffer.alloc(0), error: 'internal' });
    await origin.close();
  });

  it('gives up its connection when it is closed with much to come', async () => {
    await using server = await openScriptedOrigin(({ send, closed }) => {
      void send(`HTTP/1.1 200 OK\r\nContent-Length: ${mebibyte}\r\n\r\nbegin`);
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const { body } = await origin.fetch(originRequest());
    body.close();
    body.close();
    await server.allClosed();
    await origin.close();
  });

  it('gives up its connection when its reader leaves', async () => {
    await using server = await openScriptedOrigin(({ send, closed }) => {
      void send('HTTP/1.1 200 OK\r\n\r\nbegin');
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const { body } = await origin.fetch(originRequest());
    for await (const chunk of body) if (chunk.length > 0) break;
    await server.allClosed();
    await origin.close();
  });

  it('keeps its connection when it is closed with little to come', async () => {
    const rest = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ send }) => {
      await send('HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nno');
      await rest.promise;
      await send('ne');
    }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    const { body } = await origin.fetch(originRequest());
    body.close();
    rest.resolve();
    await readBody(await origin.fetch(originRequest()));
    expect(server.connections).toBe(1);
    await origin.close();
  });

  it('throws client_gone to its reader when other code closes it', async () => {
    await using server = await openScriptedOrigin(({ send, closed }) => {
      void send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n');
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const response = await origin.fetch(originRequest());
    const reading = readBody(response);
    response.body.close();
    expect((await reading).error).toBe('client_gone');
    await origin.close();
  });
});

describe('a client', () => {
  it('has no more connections than its share', async () => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ request, send }) => {
      if (request.target.startsWith('/held')) await barrier.promise;
      await send(good);
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 3, connectionsPerClient: 2 }));
    const ask = (client: string, target: string) =>
      origin.fetch(originRequest({ target, charged: { client, bodyClients: undefined } }));
    const held = [ask('a', '/held1'), ask('a', '/held2'), ask('a', '/held3'), ask('a', '/held4')];
    await readBody(await ask('b', '/b'));
    expect(server.requests.map(({ target }) => target).toSorted()).toEqual(['/b', '/held1', '/held2']);
    barrier.resolve();
    for (const each of held) await readBody(await each);
    await origin.close();
  });

  it('holds no connection while no byte of its body has arrived', async () => {
    await using server = await openScriptedOrigin(good, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    const first = Promise.withResolvers<void>();
    const body = new ReusableBody({
      async *[Symbol.asyncIterator]() {
        await first.promise;
        yield Buffer.from('abc');
      },
      close() {},
    });
    const upload = origin.fetch(originRequest({ method: 'PUT', body, bodySizeBytes: 3 }));
    await readBody(await origin.fetch(originRequest()));
    expect(server.requests.map(({ method }) => method)).toEqual(['GET']);
    first.resolve();
    expect((await readBody(await upload)).bytes.toString()).toBe('good');
    await origin.close();
  });

  it('whose body breaks off before it begins needs no connection', async () => {
    await using server = await openScriptedOrigin(good);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const body = new ReusableBody(bodyOf(new ProxyError('request_timeout')));
    expect(await failureOf(origin.fetch(originRequest({ method: 'PUT', body, bodySizeBytes: 3 })))).toBe(
      'request_timeout',
    );
    expect(server.connections).toBe(0);
    await origin.close();
  });
});

describe('an abort', () => {
  it('before the request needs no connection', async () => {
    await using server = await openScriptedOrigin(good);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const body = bodyOf('abc');
    const request = originRequest({ method: 'PUT', body, bodySizeBytes: 3, signal: AbortSignal.abort() });
    expect(await failureOf(origin.fetch(request))).toBe('client_gone');
    expect([server.connections, body.isClosed]).toEqual([0, true]);
    await origin.close();
  });

  it('while the request waits for a connection fails it at once, and does not affect others', async () => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ send }) => {
      await barrier.promise;
      await send(good);
    }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    const aborter = new AbortController();
    const first = origin.fetch(originRequest());
    const second = origin.fetch(originRequest({ signal: aborter.signal }));
    const third = origin.fetch(originRequest());
    aborter.abort();
    expect(await failureOf(second)).toBe('client_gone');
    barrier.resolve();
    expect((await readBody(await first)).bytes.toString()).toBe('good');
    expect((await readBody(await third)).bytes.toString()).toBe('good');
    expect(server.requests.length).toBe(2);
    await origin.close();
    await server.allClosed();
  });

  it('while the request waits for a connection uses none, however many aborts there are', async () => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ send }) => {
      await barrier.promise;
      await send(good);
    }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    const first = origin.fetch(originRequest());
    const leaving = Array.from({ length: 20 }, async () => {
      const aborter = new AbortController();
      const fetching = origin.fetch(originRequest({ signal: aborter.signal }));
      aborter.abort();
      return await failureOf(fetching);
    });
    expect(new Set(await Promise.all(leaving))).toEqual(new Set(['client_gone']));
    const last = origin.fetch(originRequest());
    barrier.resolve();
    await readBody(await first);
    expect((await readBody(await last)).bytes.toString()).toBe('good');
    expect([server.requests.length, server.connections]).toEqual([2, 1]);
    await origin.close();
    await server.allClosed();
  });

  it('while the request waits for the head cuts the connection', async () => {
    const asked = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(({ closed }) => {
      asked.resolve();
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const aborter = new AbortController();
    const fetching = origin.fetch(originRequest({ signal: aborter.signal }));
    await asked.promise;
    aborter.abort();
    expect(await failureOf(fetching)).toBe('client_gone');
    await server.allClosed();
    await origin.close();
  });

  it('in the body cuts the connection, and keeps a reason that is a ProxyError', async () => {
    await using server = await openScriptedOrigin(({ send, closed }) => {
      void send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ngood');
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    const aborter = new AbortController();
    const response = await origin.fetch(originRequest({ signal: aborter.signal }));
    aborter.abort(new ProxyError('bytes_gone'));
    expect((await readBody(response)).error).toBe('bytes_gone');
    await server.allClosed();
    await origin.close();
  });
});

describe('connections', () => {
  it('are as many as allowed, and used again', async () => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ send }) => {
      await barrier.promise;
      await send(good);
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 2 }));
    const reading = Array.from({ length: 6 }, async () => readBody(await origin.fetch(originRequest())));
    barrier.resolve();
    const bodies = await Promise.all(reading);
    expect(bodies.map(({ bytes }) => bytes.toString())).toEqual(Array(6).fill('good'));
    expect(server.connections).toBe(2);
    await origin.close();
    await server.allClosed();
  });

  it('that were closed while they were idle are replaced', async () => {
    await using server = await openScriptedOrigin(async ({ send, end }) => {
      await send(good);
      end();
    }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    await readBody(await origin.fetch(originRequest()));
    await server.allClosed();
    expect((await readBody(await origin.fetch(originRequest()))).bytes.toString()).toBe('good');
    expect(server.connections).toBe(2);
    await origin.close();
  });

  it('that receive unrequested bytes while they are idle are dropped', async () => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ send, closed }) => {
      await send(good);
      await barrier.promise;
      await send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil');
      await closed;
    }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    await readBody(await origin.fetch(originRequest()));
    barrier.resolve();
    await server.allClosed();
    expect((await readBody(await origin.fetch(originRequest()))).bytes.toString()).toBe('good');
    await origin.close();
  });

  it.each<[string, string]>([
    ['a length', 'Content-Length: 9'],
    ['a coding', 'Transfer-Encoding: chunked'],
    ['neither, but Connection: keep-alive', 'Connection: keep-alive'],
  ])('are kept after HEAD: the head has %s', async (_name, field) => {
    await using server = await openScriptedOrigin(({ request, send }) =>
      send(request.method === 'HEAD' ? `HTTP/1.1 200 OK\r\n${field}\r\n\r\n` : good),
    );
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    for (const method of ['HEAD', 'HEAD', 'GET', 'HEAD', 'GET']) {
      const { bytes } = await readBody(await origin.fetch(originRequest({ method })));
      expect(bytes.toString()).toBe(method === 'GET' ? 'good' : '');
    }
    expect([server.requests.length, server.connections]).toEqual([5, 1]);
    await origin.close();
  });

  it.each(['HEAD', 'GET'])('are not kept after %s with content', async (method) => {
    await using server = await openScriptedOrigin(async ({ body, request, send }) => {
      await body();
      await send(request.method === 'HEAD' ? 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n' : good);
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));
    for (let sent = 0; sent < 2; sent += 1) {
      await readBody(await origin.fetch(originRequest({ method, body: bodyOf('abc'), bodySizeBytes: 3 })));
    }
    expect(server.connections).toBe(2);
    await origin.close();
  });

  it.each<[string, string]>([
    ['with it, like a response', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'],
    ['with it, like content', '<!doctype html>'],
    ['later, like a response', 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'],
    ['later, like content', '<!doctype html>'],
  ])('are not kept after HEAD once content followed the head: %s', async (name, content) => {
    const barrier = Promise.withResolvers<void>();
    await using server = await openScriptedOrigin(async ({ request, send, closed }) => {
      if (request.method === 'GET') return await send(good);
      const head = `HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\n\r\n`;
      if (name.startsWith('with')) return await send(head + content);
      await send(head);
      await barrier.promise;
      await send(content);
      return await closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    await readBody(await origin.fetch(originRequest({ method: 'HEAD' })));
    barrier.resolve();
    await server.allClosed();
    for (const method of ['GET', 'HEAD', 'GET', 'HEAD']) {
      const { bytes } = await readBody(await origin.fetch(originRequest({ method })));
      expect(bytes.toString()).toBe(method === 'GET' ? 'good' : '');
    }
    const headsLater = server.requests.filter(({ method }) => method === 'HEAD').slice(1);
    expect(headsLater.map(({ fields }) => fields.find(([field]) => field === 'connection')?.[1])).toEqual([
      'close',
      'close',
    ]);
    await origin.close();
  });

  it('are neither lost nor mixed up when many requests fail in many ways', async () => {
    const plays: Play[] = [
      ({ request, send }) =>
        send(`HTTP/1.1 200 OK\r\nContent-Length: ${request.target.length}\r\n\r\n${request.target}`),
      ({ cut }) => cut(),
      ({ end }) => end(),
      ({ send }) => send('nonsense\r\n\r\n'),
      ({ send }) => send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil and more'),
      async ({ send, cut }) => {
        await send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nev');
        cut();
      },
    ];
    await using server = await openScriptedOrigin((exchange) => {
      const play = plays[Number(exchange.request.target.slice(1)) % plays.length];
      return typeof play === 'function' ? play(exchange) : undefined;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 4 }));
    const outcomes = Array.from({ length: 240 }, async (_, index) => {
      const got = await origin.fetch(originRequest({ target: `/${index}` })).then(readBody, codeOf);
      return typeof got === 'string' ? got : `${got.bytes.toString()} ${got.error ?? 'whole'}`;
    });
    const kinds = ['whole', 'origin_reset', 'origin_reset', 'origin_ill_framed', 'evil whole', 'ev origin_reset'];
    const want = Array.from({ length: 240 }, (_, index) => {
      const kind = kinds[index % kinds.length];
      return kind === 'whole' ? `/${index} whole` : kind;
    });
    expect(await Promise.all(outcomes)).toEqual(want);
    expect(server.openConnections).toBeLessThanOrEqual(4);
    await origin.close();
    await server.allClosed();
  });

  it('are cut when the origin is closed, idle or not', async () => {
    await using server = await openScriptedOrigin(good, ({ send, closed }) => {
      void send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ngood');
      return closed;
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    await readBody(await origin.fetch(originRequest()));
    const running = await origin.fetch(originRequest());
    await origin.close();
    expect((await readBody(running)).error).toBe('internal');
    expect(await failureOf(origin.fetch(originRequest()))).toBe('internal');
    await server.allClosed();
  });
});

describe('an origin that cannot be reached', () => {
  it.each(['127.0.0.1', 'localhost', '[::1]'])('http://%s refuses', async (host) => {
    const port = await unusedPort();
    const origin = createUndiciOrigin(originOptions({ url: `http://${host}:${port}` }));
    expect(await failureOf(origin.fetch(originRequest()))).toBe('origin_refused');
    await origin.close();
  });

  it('is unresolved where its name has no address', async () => {
    const origin = createUndiciOrigin(originOptions({ url: 'http://no-such-origin.invalid' }));
    expect(await failureOf(origin.fetch(originRequest()))).toBe('origin_unresolved');
    await origin.close();
  });
});

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
