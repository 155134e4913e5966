/** Responses over HTTP/2 (RFC 9113 §8.1), on streams of a real connection. */

import { describe, expect, it } from 'vitest';
import type { Delivery, Handler, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { errorCode, getFields, postFields, setting } from '../support/clients/h2-raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { streamResponse, testNow, textResponse } from '../support/proxies/open-listener.ts';
import { NoFields } from '../support/values/no-fields.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const mebibyte = 1024 * 1024;

async function* chunksOf(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function* chunksThenFail(...texts: string[]): AsyncGenerator<Uint8Array> {
  yield* chunksOf(...texts);
  throw new ProxyError('origin_reset');
}

describe('a response', () => {
  it('has lower-case fields, Date and Content-Length, and no connection-specific fields', async () => {
    const fields = [
      ['etag', '"x"'],
      ['connection', 'close'],
      ['keep-alive', 'timeout=5'],
      ['transfer-encoding', 'chunked'],
      ['upgrade', 'h3'],
      ['http2-settings', 'AAMAAABk'],
      ['proxy-connection', 'x'],
      ['content-length', '99'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['vary', 'a'],
      ['vary', 'b'],
      ['age', '1'],
      ['age', '2'],
    ] as const;
    await using server = await openH2Server(() => textResponse('body', { fields }), { now: () => testNow });
    await using client = await server.connect();
    client.request(1, getFields());
    const { fields: got, body, isEnded } = await client.whenOver(1);
    expect(got).toEqual([
      [':status', '200'],
      ['etag', '"x"'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['vary', 'a, b'],
      ['age', '1, 2'],
      ['date', 'Fri, 02 Jan 2026 03:04:05 GMT'],
      ['content-length', '4'],
    ]);
    expect([body.toString(), isEnded]).toEqual(['body', true]);
  });

  const bytes = () => textResponse('body').body;
  const known = () => streamResponse(chunksOf('bo', '', 'dy'), 4).body;
  const unknown = () => streamResponse(chunksOf('bo', 'dy'), undefined).body;
  it.each<[string, string, number, () => ProxyResponse['body'], string, string | undefined]>([
    ['bytes', 'GET', 200, bytes, 'body', '4'],
    ['none', 'GET', 404, () => ({ kind: 'none' }), '', '0'],
    ['a stream of known length', 'GET', 206, known, 'body', '4'],
    ['a stream of unknown length', 'GET', 200, unknown, 'body', undefined],
    ['an empty stream', 'GET', 200, () => streamResponse(chunksOf(), 0).body, '', '0'],
    ['HEAD, bytes', 'HEAD', 200, bytes, '', '4'],
    ['HEAD, a stream', 'HEAD', 200, unknown, '', undefined],
    ['204', 'GET', 204, bytes, '', undefined],
    ['205', 'GET', 205, bytes, '', '0'],
    ['304, a stream', 'GET', 304, known, '', undefined],
  ])('ends where its body ends: %s', async (_name, method, status, body, content, length) => {
    const deliveries: Delivery[] = [];
    await using server = await openH2Server(() => ({
      status,
      fields: [],
      body: body(),
      onDelivered: (delivery) => deliveries.push(delivery),
    }));
    await using client = await server.connect();
    client.request(1, [[':method', method], ...getFields().slice(1)]);
    const outcome = await client.whenOver(1);
    expect([outcome.status, outcome.body.toString(), outcome.isEnded]).toEqual([status, content, true]);
    expect(outcome.fields.find(([name]) => name === 'content-length')?.[1]).toBe(length);
    await expect.poll(() => deliveries).toEqual([{ bytesSent: content.length, complete: true }]);
  });

  it.each<[string, ProxyResponse]>([
    ['a line break in a value', textResponse('', { fields: [['x', 'a\r\nb: c']] })],
    ['NUL in a value', textResponse('', { fields: [['x', 'a\0y\0z']] })],
    ['an invalid name', textResponse('', { fields: [['x y', 'a']] })],
    ['a pseudo-field', textResponse('', { fields: [[':status', '404']] })],
    ['an invalid status', textResponse('', { status: 700 })],
  ])('that cannot be written becomes a 500: %s', async (_name, response) => {
    await using server = await openH2Server(() => response);
    await using client = await server.connect();
    client.request(1, getFields());
    expect((await client.whenOver(1)).status).toBe(500);
  });

  it('can be preceded by interim responses', async () => {
    await using server = await openH2Server((request) => {
      request.sendInterim({
        status: 103,
        fields: [
          ['link', '</a>'],
          ['connection', 'x'],
        ],
      });
      request.sendInterim({ status: 100, fields: [] });
      request.sendInterim({ status: 103, fields: [['x', 'a\nb']] });
      return textResponse('final');
    });
    await using client = await server.connect();
    client.request(1, getFields());
    const { interim, body } = await client.whenOver(1);
    expect([interim, body.toString()]).toEqual([
      [
        [
          [':status', '103'],
          ['link', '</a>'],
        ],
      ],
      'final',
    ]);
  });

  it.each<[string, number | undefined]>([
    ['known', 4],
    ['unknown', undefined],
  ])('of %s length is followed by trailers where its client takes them', async (_name, sizeBytes) => {
    const stream = {
      ...chunks(Promise.resolve(), 'body'),
      trailers: () =>
        [
          ['x-sum', '1'],
          ['content-length', '9'],
          ['connection', 'x'],
          ['digest', 'a'],
          ['set-cookie', 'a=b'],
        ] as const,
    };
    await using server = await openH2Server(() => ({
      status: 200,
      fields: [],
      body: { kind: 'stream', sizeBytes, stream },
    }));
    await using client = await server.connect();
    client.request(1, getFields('/', [['te', 'trailers']]));
    const { body, trailers, isEnded } = await client.whenOver(1);
    expect([body.toString(), trailers, isEnded]).toEqual([
      'body',
      [
        ['x-sum', '1'],
        ['digest', 'a'],
      ],
      true,
    ]);
    client.request(3, getFields('/'));
    expect(await client.whenOver(3)).toMatchObject({ trailers: [], isEnded: true });
  });

  /** Bodies without content, which must end while no content can be sent. `end` is when a stream of content ends. */
  const empties: readonly (readonly [string, (end: Promise<void>) => ProxyResponse['body']])[] = [
    ['none', () => ({ kind: 'none' })],
    ['no bytes', () => textResponse('').body],
    ['a stream of no bytes', () => streamResponse(chunksOf(), 0).body],
    ['a stream of unknown length that is over', () => streamResponse(chunksOf(), undefined).body],
    ['a stream of unknown length that ends later', (end) => streamResponse(chunksAfter(end), undefined).body],
    [
      'a stream that could have trailers',
      (end) => ({ kind: 'stream', sizeBytes: undefined, stream: { ...chunks(end), trailers: () => [] } }),
    ],
  ];
  const spent: readonly (readonly [string, readonly (readonly [number, number])[]])[] = [
    ['by another stream', [[setting.windowSize, 1_000_000]]],
    ['from the start', [[setting.windowSize, 0]]],
  ];

  it.each(spent.flatMap(([how, settings]) => empties.map(([what, body]) => [how, what, settings, body] as const)))(
    'without content ends though the window is used up %s: %s',
    async (_how, _what, settings, body) => {
      const end = Promise.withResolvers<void>();
      await using server = await openH2Server(({ target }) =>
        target === '/large'
          ? streamResponse(chunksOf('x'.repeat(100_000)), 100_000)
          : { status: 200, fields: [], body: body(end.promise) },
      );
      await using client = await server.connect(settings);
      client.request(1, getFields('/large', [['te', 'trailers']]));
      await untilQuiet(() => client.outcome(1).body.length);
      client.request(3, getFields('/', [['te', 'trailers']]));
      await client.roundTrip();
      end.resolve();
      expect(await client.whenOver(3)).toMatchObject({ status: 200, isEnded: true, resetCode: undefined });
      client.windowUpdate(0, 1_000_000);
      client.windowUpdate(1, 1_000_000);
      await client.whenOver(1);
      expect(client.outcome(3).resetCode).toBeUndefined();
    },
  );

  it('has its head sent though the window is used up, even if no content follows', async () => {
    await using server = await openH2Server(({ target }) =>
      target === '/large'
        ? streamResponse(chunksOf('x'.repeat(100_000)), 100_000)
        : streamResponse(chunksAfter(new Promise(() => {})), undefined),
    );
    await using client = await server.connect([[setting.windowSize, 1_000_000]]);
    client.request(1, getFields('/large'));
    await untilQuiet(() => client.outcome(1).body.length);
    client.request(3, getFields('/'));
    expect(await client.until(() => client.outcome(3).status === 200)).toBe(true);
  });

  /** Content that fills a window of 65,535 bytes. */
  const full = 'x'.repeat(65_535);
  it.each<[string, (end: Promise<void>) => ProxyResponse['body'], readonly string[]]>([
    ['bytes', () => textResponse(full).body, []],
    ['a stream of known length', () => streamResponse(chunksOf(full), full.length).body, []],
    ['a stream of unknown length', () => streamResponse(chunksOf(full), undefined).body, []],
    ['a stream in two chunks', () => streamResponse(chunksOf('x', full.slice(1)), undefined).body, []],
  ])('ends with the content that fills the window: %s', async (_name, body) => {
    await using server = await openH2Server(() => ({ status: 200, fields: [], body: body(Promise.resolve()) }));
    await using client = await server.connect();
    client.request(1, getFields('/'));
    const { body: got, isEnded, resetCode } = await client.whenOver(1);
    expect([got.length, isEnded, resetCode]).toEqual([full.length, true, undefined]);
  });

  it.each<[string, string, boolean]>([
    ['content that fills the window', full, false],
    ['content that fills the window, to an unfinished request', full, true],
    ['no content', '', false],
    ['no content, to an unfinished request', '', true],
  ])('has its trailers sent though the window is used up: after %s', async (_name, content, isUnfinished) => {
    const deliveries: Delivery[] = [];
    const end = Promise.withResolvers<void>();
    const trailers = () => [['x-sum', '1']] as const;
    await using server = await openH2Server(() => ({
      status: 200,
      fields: [],
      body: { kind: 'stream', sizeBytes: undefined, stream: { ...chunks(end.promise, content), trailers } },
      onDelivered: (delivery) => deliveries.push(delivery),
    }));
    await using client = await server.connect(content === '' ? [[setting.windowSize, 0]] : []);
    client.request(1, postFields('/', [['te', 'trailers']]), { endStream: !isUnfinished });
    await client.until(() => client.outcome(1).body.length === content.length);
    end.resolve();
    await client.until(() => client.outcome(1).isEnded);
    expect(client.outcome(1)).toMatchObject({ status: 200, trailers: [['x-sum', '1']] });
    if (isUnfinished) await client.until(() => client.outcome(1).resetCode === errorCode.none);
    await expect.poll(() => deliveries).toEqual([{ bytesSent: content.length, complete: true }]);
  });

  it.each<[string, AsyncIterable<Uint8Array>, number | undefined]>([
    ['an error', chunksThenFail('part'), 10],
    ['an error before the first byte', chunksThenFail(), undefined],
    ['fewer bytes than promised', chunksOf('part'), 10],
    ['more bytes than promised', chunksOf('part', 'more'), 6],
  ])('that is broken is reset, and no other stream with it: %s', async (_name, body, sizeBytes) => {
    const deliveries: Delivery[] = [];
    await using server = await openH2Server(({ target }) =>
      target === '/broken'
        ? streamResponse(body, sizeBytes, { onDelivered: (delivery) => deliveries.push(delivery) })
        : textResponse('well'),
    );
    await using client = await server.connect();
    client.request(1, getFields('/broken'));
    const { status, isEnded, resetCode } = await client.whenOver(1);
    expect([status, isEnded, resetCode]).toEqual([200, false, errorCode.internal]);
    client.request(3, getFields('/'));
    expect((await client.whenOver(3)).body.toString()).toBe('well');
    expect(deliveries).toMatchObject([{ complete: false }]);
  });

  it('follows the windows of its stream and of the connection, and holds its producer back', async () => {
    let pulled = 0;
    const size = 64 * mebibyte;
    async function* produce(): AsyncGenerator<Uint8Array> {
      const chunk = patternBytes(0, 256 * 1024);
      for (; pulled < size; pulled += chunk.length) yield chunk;
    }
    await using server = await openH2Server(({ target }) =>
      target === '/large' ? streamResponse(produce(), size) : textResponse('small'),
    );
    await using client = await server.connect([[setting.windowSize, 10_000]]);
    client.request(1, getFields('/large'));
    await untilQuiet(() => pulled + client.outcome(1).body.length);
    expect(client.outcome(1).body.length).toBe(10_000);
    expect(pulled).toBeLessThan(mebibyte);
    client.request(3, getFields('/'));
    expect((await client.whenOver(3)).body.toString()).toBe('small');
    client.windowUpdate(1, 1_000_000);
    await untilQuiet(() => client.outcome(1).body.length);
    expect(client.outcome(1).body.length).toBe(65_535 - 5);
    client.windowUpdate(0, 1_000_000);
    await untilQuiet(() => client.outcome(1).body.length);
    expect(client.outcome(1).body.length).toBe(1_010_000);
    expect(
      client
        .outcome(1)
        .body.subarray(0, 256 * 1024)
        .equals(patternBytes(0, 256 * 1024)),
    ).toBe(true);
  });

  it('that ends the connection lets running streams finish first', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    await using server = await openH2Server(({ target }) =>
      target === '/slow' ? release.promise : textResponse('last', { closeConnection: true }),
    );
    await using client = await server.connect();
    client.request(1, getFields('/slow'));
    client.request(3, getFields('/'));
    expect((await client.whenOver(3)).body.toString()).toBe('last');
    await client.until(() => client.goawayCode !== undefined);
    release.resolve(textResponse('slow'));
    expect((await client.whenOver(1)).body.toString()).toBe('slow');
    await client.closed;
    expect(client.goawayCode).toBe(errorCode.none);
  });

  it('is complete though the body of its request is not, and its stream is then reset with NO_ERROR', async () => {
    await using server = await openH2Server(() => textResponse('no', { status: 413 }));
    await using client = await server.connect();
    client.request(1, postFields(), { endStream: false });
    await client.until(() => client.outcome(1).resetCode !== undefined);
    expect(client.outcome(1)).toMatchObject({ status: 413, isEnded: true, resetCode: errorCode.none });
    client.data(1, 'late');
    expect(await client.roundTrip()).toBe(true);
  });

  it.each([errorCode.cancel, errorCode.none, errorCode.internal])(
    'ends when its client resets the stream with code %i, and its body is closed at once',
    async (code) => {
      const deliveries: Delivery[] = [];
      let closings = 0;
      const stalled: AsyncIterable<Uint8Array> = {
        [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
      };
      await using server = await openH2Server(({ target }) =>
        target === '/'
          ? streamResponse(stalled, undefined, {
              onClose: () => (closings += 1),
              onDelivered: (delivery) => deliveries.push(delivery),
            })
          : new Promise(() => {}),
      );
      await using client = await server.connect();
      client.request(1, getFields('/'));
      client.request(3, getFields('/never'));
      await client.until(() => client.outcome(1).status === 200);
      const signals = server.requests.map(({ signal }) => signal);
      client.reset(1, code);
      client.reset(3, code);
      await expect
        .poll(() => deliveries)
        .toMatchObject([{ bytesSent: 0, complete: false, error: { code: 'client_gone' } }]);
      expect(closings).toBeGreaterThan(0);
      await expect.poll(() => signals.map(({ aborted }) => aborted)).toEqual([true, true]);
      expect(await client.roundTrip()).toBe(true);
    },
  );
});

async function* chunksAfter(end: Promise<void>, ...texts: string[]): AsyncGenerator<Uint8Array> {
  yield* chunksOf(...texts);
  await end;
}

function chunks(end: Promise<void>, ...texts: string[]): AsyncIterable<Uint8Array> & { close(): void } {
  return { [Symbol.asyncIterator]: () => chunksAfter(end, ...texts), close: () => {} };
}

describe('a hit whose bytes are lent', () => {
  it.each([100, 20_000, mebibyte])('of %i bytes gives them back once, when all have left', async (sizeBytes) => {
    const lent = Buffer.from(patternBytes(0, sizeBytes));
    const happened: string[] = [];
    const handler: Handler = Object.assign(() => textResponse('the whole road'), {
      hit: () => ({
        status: 200,
        fields: new NoFields(),
        ageSeconds: 0,
        cacheStatus: 'rangeway; hit',
        contentRange: undefined,
        more: [],
        sizeBytes,
        chunks: [lent],
        file: undefined,
        begin: () => {},
        giveBack: () => {
          happened.push('given back');
          lent.fill(0);
        },
        onDelivered: ({ complete }: Delivery) => happened.push(complete ? 'delivered' : 'cut off'),
      }),
    });
    await using server = await openH2Server(handler);
    await using client = await server.connect([[setting.windowSize, 2 * mebibyte]]);
    client.windowUpdate(0, 2 * mebibyte);
    client.request(1, getFields());
    const { body, isEnded } = await client.whenOver(1);
    expect([isEnded, body.equals(patternBytes(0, sizeBytes))]).toEqual([true, true]);
    await expect.poll(() => happened).toEqual(['given back', 'delivered']);
    expect(server.requests).toEqual([]);
  });
});
