/** Requests that follow a precedent over HTTP/1: which of them do, what they get, and what is told of it. */

import { describe, expect, it } from 'vitest';
import type {
  Delivery,
  EqualRequest,
  PrecedentResponse,
  ProxyRequest,
  ProxyResponse,
} from '../../../src/http/message.ts';
import { openListener, type TestListener, testNow, textResponse, usually } from '../../support/open-listener.ts';
import { patternBytes } from '../../support/pattern-body.ts';
import { type RawClient, rawValues } from '../../support/raw-client.ts';

const body = patternBytes(0, 1000);
const fields = [
  ['etag', '"a"'],
  ['age', '3'],
  ['set-cookie', 'a=1'],
  ['set-cookie', 'b=2'],
] as const;

/** Gives each response a precedent, and keeps what became of those that followed one. */
class Ground {
  readonly followed: EqualRequest[] = [];
  readonly deliveries: Delivery[] = [];
  /** What the precedent answers; undefined sends requests the whole road. */
  answer: (request: EqualRequest) => Partial<PrecedentResponse> | undefined = () => ({});

  respond({ method }: Pick<ProxyRequest, 'method'>): ProxyResponse {
    return {
      status: 200,
      fields: [['x-road', 'whole']],
      body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
      precedent: method === 'POST' ? undefined : { follow: (request) => this.#follow(request) },
    };
  }

  async open(limits = {}): Promise<TestListener> {
    return await openListener((request) => this.respond(request), { limits });
  }

  #follow(request: EqualRequest): PrecedentResponse | undefined {
    const answer = this.answer(request);
    if (answer === undefined) return undefined;
    this.followed.push(request);
    return {
      status: 200,
      fields,
      contentRange: undefined,
      sizeBytes: body.length,
      chunks: [body],
      onDelivered: (delivery) => this.deliveries.push(delivery),
      ...answer,
    };
  }
}

const get = (lines = '') => `GET /x HTTP/1.1\r\nHost: a\r\n${lines}\r\n`;
const ranged = (value: string) => get(`Range: ${value}\r\n`);

/** Two requests, the second one after the response to the first. */
async function exchangeTwo(client: RawClient, first: string, second = first) {
  await exchangeOne(client, first);
  return await exchangeOne(client, second);
}

async function exchangeOne(client: RawClient, request: string) {
  client.send(request);
  return await client.response(request.startsWith('HEAD') ? 'HEAD' : 'GET');
}

describe('a request that says what one before it said', () => {
  it('follows its precedent, and gets the head and the body that this tells', async () => {
    const ground = new Ground();
    await using listener = await ground.open({ keepAliveTimeoutMs: 60_000 });
    await using client = await listener.connect();
    const response = await exchangeTwo(client, get());
    expect(response?.lines).toEqual([
      ['ETag', '"a"'],
      ['Age', '3'],
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['Date', new Date(testNow).toUTCString()],
      ['Content-Length', '1000'],
      ['Connection', 'keep-alive'],
      ['Keep-Alive', 'timeout=60'],
    ]);
    expect(response?.body.equals(body)).toBe(true);
    expect(listener.requests).toHaveLength(1);
    expect(ground.followed).toMatchObject([{ range: undefined, peer: usually.peer(client), receivedAt: testNow }]);
    expect(ground.deliveries).toEqual([{ bytesSent: 1000, complete: true }]);
  });

  it('follows it on every connection of the listener', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    for (let count = 0; count < 3; count += 1) {
      await using client = await listener.connect();
      expect((await client.exchange(get())).status).toBe(200);
    }
    expect(listener.requests).toHaveLength(1);
    expect(ground.followed).toHaveLength(2);
  });

  it('does not where its fields are over their limit', async () => {
    const ground = new Ground();
    await using listener = await ground.open({ fieldsBytes: 1024 });
    await using client = await listener.connect();
    const statusOf = async (value: string) => (await exchangeOne(client, ranged(value)))?.status;
    expect([await statusOf('bytes=0-9'), await statusOf('bytes=1-9')]).toEqual([200, 200]);
    expect(ground.followed).toHaveLength(1);
    expect(await statusOf(`bytes=0-${'9'.repeat(1024)}`)).toBe(431);
  });

  it('may ask for other bytes', async () => {
    const ground = new Ground();
    ground.answer = ({ range = '' }) => {
      const [, from = '', to = ''] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
      const chunk = body.subarray(Number(from), Number(to) + 1);
      return { status: 206, contentRange: `bytes ${from}-${to}/1000`, sizeBytes: chunk.length, chunks: [chunk] };
    };
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(ranged('bytes=0-0'));
    for (const [from, to] of [
      [0, 9],
      [990, 999],
      [7, 7],
    ] as const) {
      const response = await client.exchange(ranged(`bytes=${from}-${to}`));
      expect(response.status).toBe(206);
      expect(response.reason).toBe('Partial Content');
      expect(rawValues(response, 'content-range')).toEqual([`bytes ${from}-${to}/1000`]);
      expect(response.body.equals(body.subarray(from, to + 1))).toBe(true);
    }
    expect(listener.requests).toHaveLength(1);
    expect(ground.followed.map(({ range }) => range)).toEqual(['bytes=0-9', 'bytes=990-999', 'bytes=7-7']);
    expect(ground.deliveries.map(({ bytesSent }) => bytesSent)).toEqual([10, 10, 1]);
  });

  it.each<[string, Partial<PrecedentResponse>, string, readonly string[]]>([
    ['HEAD', {}, 'HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n', ['1000']],
    ['304', { status: 304 }, get(), []],
  ])('gets no body with %s', async (_name, answer, request, lengths) => {
    const ground = new Ground();
    ground.answer = () => answer;
    await using listener = await ground.open();
    await using client = await listener.connect();
    const response = await exchangeTwo(client, request);
    expect(rawValues(response ?? { lines: [] }, 'content-length')).toEqual(lengths);
    expect(response?.body.length).toBe(0);
    expect((await client.exchange(get('X: y\r\n'))).body.equals(body)).toBe(true);
    expect(ground.deliveries).toEqual([{ bytesSent: 0, complete: true }]);
  });

  it('in HTTP/1.0 that keeps its connection follows it too', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    const response = await exchangeTwo(client, 'GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['keep-alive']);
    expect(ground.followed).toHaveLength(1);
  });

  it.each([
    ['one buffer', 1],
    ['a few kilobytes', 8_000],
    ['more than is copied', 100_000],
    ['many chunks', 1_000_000],
  ])('gets every byte of %s', async (_name, sizeBytes) => {
    const ground = new Ground();
    const bytes = patternBytes(0, sizeBytes);
    const middle = Math.floor(sizeBytes / 3);
    ground.answer = () => ({ sizeBytes, chunks: [bytes.subarray(0, middle), bytes.subarray(middle)] });
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(get());
    for (let count = 0; count < 20; count += 1) {
      expect((await client.exchange(get())).body.equals(bytes)).toBe(true);
    }
    expect(ground.followed).toHaveLength(20);
    await expect.poll(() => ground.deliveries).toEqual(Array(20).fill({ bytesSent: sizeBytes, complete: true }));
  });
});

describe('the whole road', () => {
  const upgrade = 'Connection: Upgrade\r\nUpgrade: h2c\r\n';
  const rows: readonly (readonly [name: string, first: string, second?: string])[] = [
    ['is gone with another target', get(), get().replace('/x', '/y')],
    ['is gone with another Host', get(), get().replace('Host: a', 'Host: b')],
    ['is gone with another field', get(), get('X: y\r\n')],
    ['is gone with a field in other letters', get('X: y\r\n'), get('x: y\r\n')],
    ['is gone with another order of fields', get('X: y\r\nY: z\r\n'), get('Y: z\r\nX: y\r\n')],
    ['is gone with another method', get(), get().replace('GET', 'HEAD')],
    ['is gone with an empty line before the head', get(), `\r\n${get()}`],
    ['is gone with a range after a request without one', get(), ranged('bytes=0-1')],
    ['is gone without a range after a request with one', ranged('bytes=0-1'), get()],
    ['is gone with a range that has no value', ranged('bytes=0-1'), ranged('bytes=')],
    ['is gone with another unit', ranged('bytes=0-1'), ranged('lines=0-1')],
    ['is gone with a space in the range', ranged('bytes=0-1, 3-4')],
    ['is gone with a space behind the range', ranged('bytes=0-1 ')],
    ['is gone with two ranges', get('Range: bytes=0-1\r\nRange: bytes=2-3\r\n')],
    ['is gone with two ranges, the second one in other letters', get('Range: bytes=0-1\r\nRANGE: bytes=2-3\r\n')],
    ['is gone with a range in other letters', get('RANGE: bytes=0-1\r\n')],
    ['is gone with a range without a space before it', get('Range:bytes=0-1\r\n')],
    ['is gone with a body', get('Content-Length: 0\r\n'), get('Content-Length: 1\r\n').concat('x')],
    ['is gone with POST', get().replace('GET', 'POST')],
    ['is gone with an upgrade', get(), get(upgrade)],
    ['is gone with an expectation', get(), get('Expect: 100-continue\r\n')],
    ['is gone with a connection that ends', get(), get('Connection: close\r\n')],
  ];

  it.for(rows)('%s', async ([, first, second = first]) => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    const response = await exchangeTwo(client, first, second);
    expect(rawValues(response ?? { lines: [] }, 'x-road')).toEqual(['whole']);
    expect(listener.requests).toHaveLength(2);
    expect(ground.followed).toEqual([]);
  });

  it('is gone where the precedent does not hold any more, and leaves another one', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(get());
    ground.answer = () => undefined;
    expect(rawValues(await client.exchange(get()), 'x-road')).toEqual(['whole']);
    ground.answer = () => ({});
    expect(rawValues(await client.exchange(get()), 'x-road')).toEqual([]);
    expect(listener.requests).toHaveLength(2);
  });

  it('is gone by requests that come together, or in pieces', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(get());
    client.send(get() + get());
    for (let count = 0; count < 2; count += 1) {
      expect(rawValues((await client.response()) ?? { lines: [] }, 'x-road')).toEqual(['whole']);
    }
    for (const byte of get()) client.send(byte);
    expect((await client.response())?.body.equals(body)).toBe(true);
  });

  it('is gone where a response is due before', async () => {
    const release = Promise.withResolvers<void>();
    const ground = new Ground();
    await using listener = await openListener(async (request) => {
      if (request.target === '/slow') await release.promise;
      return ground.respond(request);
    });
    await using quick = await listener.connect();
    await quick.exchange(get());
    await using client = await listener.connect();
    client.send(get().replace('/x', '/slow'));
    await expect.poll(() => listener.requests.length).toBe(2);
    client.send(get());
    await expect.poll(() => listener.requests.length).toBe(3);
    release.resolve();
    for (let count = 0; count < 2; count += 1) expect((await client.response())?.body.equals(body)).toBe(true);
  });

  it('is gone by the last request on a connection', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(get());
    void listener.listener.retire();
    expect(rawValues(await client.exchange(get()), 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
    expect(ground.followed).toEqual([]);
  });

  it('leaves no precedent where the connection had to end', async () => {
    const ground = new Ground();
    await using listener = await openListener((request) => ({ ...ground.respond(request), closeConnection: true }));
    for (let count = 0; count < 2; count += 1) {
      await using client = await listener.connect();
      expect(rawValues(await client.exchange(get()), 'connection')).toEqual(['close']);
    }
    expect(ground.followed).toEqual([]);
  });

  it('leaves no precedent where an expectation without a body ends the connection', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    for (let count = 0; count < 2; count += 1) {
      await using client = await listener.connect();
      const response = await client.exchange(get('Expect: 100-continue\r\n'));
      expect(rawValues(response, 'connection')).toEqual(['close']);
    }
    expect(ground.followed).toEqual([]);
  });
});

describe('a client that does not take the response of a precedent at once', () => {
  const large = Buffer.alloc(64 * 1024 * 1024, 'l');
  const setUp = async (limits = {}) => {
    const ground = new Ground();
    ground.answer = () => ({ sizeBytes: large.length, chunks: [large] });
    const listener = await openListener(
      (request) => (request.target === '/next' ? textResponse('next') : ground.respond(request)),
      { limits, now: Date.now },
    );
    const client = await listener.connect();
    await client.exchange(get());
    client.send(get());
    await client.head();
    return { ground, listener, client };
  };

  it('gets all of it in the end, and the next response after it', async () => {
    const { ground, listener, client } = await setUp();
    await using _ = listener;
    client.send('GET /next HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(ground.deliveries).toEqual([]);
    expect((await client.take(large.length)).equals(large)).toBe(true);
    expect((await client.response())?.body.toString()).toBe('next');
    expect(ground.deliveries).toEqual([{ bytesSent: large.length, complete: true }]);
  });

  it('and leaves, has not got it', async () => {
    const { ground, listener, client } = await setUp();
    await using _ = listener;
    client.reset();
    const error = expect.objectContaining({ code: 'client_gone' });
    await expect.poll(() => ground.deliveries).toEqual([{ bytesSent: large.length, complete: false, error }]);
  });

  it.each([
    ['stops reading', { idleTimeoutMs: 100 }],
    ['reads too slowly', { idleTimeoutMs: 200, minBytesPerSecond: 1e12 }],
    ['takes longer than any response may', { responseTimeoutMs: 100 }],
  ])('and %s, is cut off', async (_name, limits) => {
    const { ground, listener, client } = await setUp(limits);
    await using _ = listener;
    await expect.poll(() => ground.deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
    expect((await client.rest()).length).toBeLessThan(large.length);
  });

  it('gets it before the listener is closed', async () => {
    const { ground, listener, client } = await setUp();
    const closed = listener.listener.close(10_000);
    expect((await client.rest()).length).toBe(large.length);
    expect(await closed).toEqual({ cut: 0 });
    expect(ground.deliveries).toEqual([{ bytesSent: large.length, complete: true }]);
  });
});

describe('a response of a precedent that cannot be written', () => {
  it.each<[string, Partial<PrecedentResponse>]>([
    ['a line break in a field', { fields: [['x', 'a\r\nY: b']] }],
    ['a line break in Content-Range', { contentRange: 'bytes 0-1/2\r\nX: y' }],
    ['fewer bytes than it says', { sizeBytes: 1001 }],
    ['more bytes than it says', { sizeBytes: 999 }],
  ])('for %s: the client gets a 500, and the connection ends', async (_name, answer) => {
    const ground = new Ground();
    ground.answer = () => answer;
    await using listener = await ground.open();
    await using client = await listener.connect();
    const response = await exchangeTwo(client, get());
    expect(response?.status).toBe(500);
    expect(await client.rest()).toBe('');
    const error = expect.objectContaining({ code: 'internal' });
    expect(ground.deliveries).toEqual([{ bytesSent: 0, complete: false, error }]);
  });
});
