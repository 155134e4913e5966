/** Precedents over HTTP/2: which requests follow them, and that their responses end as others do. */

import { describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import type { Delivery, EqualRequest, Handler, PrecedentResponse } from '../../src/http/message.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { openH2Server } from '../support/h2-listener.ts';
import { errorCode, getFields, type H2RawClient, postFields } from '../support/h2-raw-client.ts';
import { testNow, textResponse } from '../support/open-listener.ts';
import { untilQuiet } from '../support/until-quiet.ts';

const second = 1_000;

type Follow = (request: EqualRequest) => Omit<PrecedentResponse, 'onDelivered'> | undefined;

/** A handler whose responses leave a precedent, and what became of what followed it. */
function createLeader(follow: Follow) {
  const followed: EqualRequest[] = [];
  const deliveries: Delivery[] = [];
  const precedent = {
    follow(request: EqualRequest): PrecedentResponse | undefined {
      const response = follow(request);
      if (response === undefined) return undefined;
      followed.push(request);
      return { ...response, onDelivered: (delivery) => deliveries.push(delivery) };
    },
  };
  const handler: Handler = ({ method }) => textResponse(method === 'HEAD' ? '' : 'whole road', { precedent });
  return { handler, followed, deliveries };
}

function bytes(sizeBytes: number): Omit<PrecedentResponse, 'onDelivered'> {
  const half = Math.floor(sizeBytes / 2);
  const body = Buffer.alloc(sizeBytes, 'abc');
  const chunks = [body.subarray(0, half), body.subarray(half)];
  return { status: 200, fields: [['etag', '"x"']], contentRange: undefined, sizeBytes, chunks };
}

const digits = Buffer.from('0123456789');

/** The part of ten digits that a request asks for. */
const part: Follow = ({ range = 'bytes=0-9' }) => {
  const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
  const chunk = digits.subarray(Number(first), Number(last) + 1);
  const contentRange = `bytes ${first}-${last}/10`;
  return { status: 206, fields: [['etag', '"x"']], contentRange, sizeBytes: chunk.length, chunks: [chunk] };
};

/** Two requests one after the other. Gives what became of the second. */
async function sendTwice(client: H2RawClient, first: readonly Field[], next: readonly Field[]) {
  client.request(1, first);
  await client.whenOver(1);
  client.request(3, next);
  return await client.whenOver(3);
}

describe('a request', () => {
  const range = (value: string) => getFields('/', [['range', value]]);
  it('that is equal but for its range follows', async () => {
    const { handler, followed, deliveries } = createLeader(part);
    await using server = await openH2Server(handler, { now: () => testNow });
    await using client = await server.connect();
    const { fields, body, isEnded } = await sendTwice(client, range('bytes=0-3'), range('bytes=2-5'));
    expect([fields, body.toString(), isEnded]).toEqual([
      [
        [':status', '206'],
        ['etag', '"x"'],
        ['content-range', 'bytes 2-5/10'],
        ['date', 'Fri, 02 Jan 2026 03:04:05 GMT'],
        ['content-length', '4'],
      ],
      '2345',
      true,
    ]);
    const peer = { address: '127.0.0.1', port: client.socket.localPort };
    expect(followed).toEqual([{ range: 'bytes=2-5', peer, receivedAt: testNow }]);
    expect(server.requests).toHaveLength(1);
    await expect.poll(() => deliveries).toEqual([{ bytesSent: 4, complete: true }]);
  });

  it('of another connection follows too, and each is told with its own peer', async () => {
    const { handler, followed } = createLeader(part);
    await using server = await openH2Server(handler);
    await using one = await server.connect();
    await using other = await server.connect();
    one.request(1, range('bytes=0-3'));
    await one.whenOver(1);
    other.request(1, range('bytes=1-2'));
    expect((await other.whenOver(1)).body.toString()).toBe('12');
    expect(followed.map(({ peer }) => peer.port)).toEqual([other.socket.localPort]);
  });

  it.each<[string, readonly Field[], readonly Field[]]>([
    ['without a range, where there was one', range('bytes=0-3'), getFields()],
    ['with a range, where there was none', getFields(), range('bytes=0-3')],
    [
      'with another field',
      range('bytes=0-3'),
      getFields('/', [
        ['range', 'bytes=0-3'],
        ['x', '1'],
      ]),
    ],
    [
      'with two ranges',
      range('bytes=0-3'),
      getFields('/', [
        ['range', 'bytes=0-3'],
        ['range', 'bytes=0-3'],
      ]),
    ],
    ['with a range of another form', range('bytes=0-3'), range('bytes=0-3, 5-6')],
    ['for another path', range('bytes=0-3'), getFields('/other', [['range', 'bytes=0-3']])],
    ['with another method', getFields(), [[':method', 'HEAD'], ...getFields().slice(1)]],
    ['with a method that is neither GET nor HEAD', postFields(), postFields()],
  ])('goes the whole road: %s', async (_name, first, next) => {
    const { handler, followed } = createLeader(part);
    await using server = await openH2Server(handler);
    await using client = await server.connect();
    await sendTwice(client, first, next);
    expect([server.requests.length, followed]).toEqual([2, []]);
  });

  it('with a body goes the whole road', async () => {
    const { handler, followed } = createLeader(part);
    await using server = await openH2Server(handler);
    await using client = await server.connect();
    client.request(1, getFields());
    await client.whenOver(1);
    client.request(3, getFields(), { endStream: false });
    client.data(3, 'x', { endStream: true });
    await client.whenOver(3);
    expect([server.requests.length, followed]).toEqual([2, []]);
  });

  it('that is larger than is allowed by its range is refused', async () => {
    const { handler } = createLeader(part);
    await using server = await openH2Server(handler, { limits: { fieldsBytes: 200 } });
    await using client = await server.connect();
    const { status } = await sendTwice(client, range('bytes=0-3'), range(`bytes=${'0-3,'.repeat(60)}5-6`));
    expect(status).toBe(431);
  });

  it('that a precedent does not hold for goes the whole road, and leaves the next one', async () => {
    let holds = false;
    const { handler, followed } = createLeader((request) => (holds ? part(request) : undefined));
    await using server = await openH2Server(handler);
    await using client = await server.connect();
    expect((await sendTwice(client, range('bytes=0-3'), range('bytes=4-5'))).body.toString()).toBe('whole road');
    holds = true;
    client.request(5, range('bytes=6-7'));
    expect((await client.whenOver(5)).body.toString()).toBe('67');
    expect([server.requests.length, followed.length]).toEqual([2, 1]);
  });

  it('is not asked of a precedent that did not hold before', async () => {
    let asked = 0;
    const { handler } = createLeader(() => {
      asked += 1;
      return undefined;
    });
    let isFirst = true;
    await using server = await openH2Server((request) => {
      if (!isFirst) return textResponse('no precedent');
      isFirst = false;
      return handler(request);
    });
    await using client = await server.connect();
    await sendTwice(client, getFields(), getFields());
    client.request(5, getFields());
    expect((await client.whenOver(5)).body.toString()).toBe('no precedent');
    expect(asked).toBe(1);
  });
});

describe('a response', () => {
  it('to HEAD has a length and no content', async () => {
    const { handler, deliveries } = createLeader(() => ({ ...bytes(100), chunks: [] }));
    await using server = await openH2Server(handler);
    await using client = await server.connect();
    const head: readonly Field[] = [[':method', 'HEAD'], ...getFields().slice(1)];
    const { fields, body, isEnded } = await sendTwice(client, head, head);
    expect(fields).toContainEqual(['content-length', '100']);
    expect([body.length, isEnded]).toEqual([0, true]);
    await expect.poll(() => deliveries).toEqual([{ bytesSent: 0, complete: true }]);
  });

  it.each([0, 1, 16 * 1024, 64 * 1024, 300_000])('of %i bytes is whole', async (sizeBytes) => {
    const { handler, deliveries } = createLeader(() => bytes(sizeBytes));
    await using server = await openH2Server(handler);
    await using client = await server.connect([[4, 1_000_000]]);
    client.windowUpdate(0, 10_000_000);
    client.request(1, getFields());
    await client.whenOver(1);
    // The first shows how fast the client is; the later ones are sent in larger pieces.
    for (const stream of [3, 5, 7, 9]) {
      client.request(stream, getFields());
      const { body, isEnded } = await client.whenOver(stream);
      expect([body.equals(Buffer.alloc(sizeBytes, 'abc')), isEnded]).toEqual([true, true]);
    }
    await expect.poll(() => deliveries).toEqual(Array(4).fill({ bytesSent: sizeBytes, complete: true }));
  });

  it('with a field that cannot be written is a 500, and was not delivered', async () => {
    const { handler, deliveries } = createLeader(() => ({ ...bytes(10), fields: [['x', 'a\nb']] }));
    await using server = await openH2Server(handler);
    await using client = await server.connect();
    expect((await sendTwice(client, getFields(), getFields())).status).toBe(500);
    await expect.poll(() => deliveries).toMatchObject([{ complete: false, error: { code: 'internal' } }]);
  });

  it.each<[string, number, (client: H2RawClient) => unknown]>([
    ['resets its stream', 60_000, (client) => client.reset(3)],
    ['resets the stream of a large one', 300_000, (client) => client.reset(3)],
    ['resets the stream of a large one without an error', 300_000, (client) => client.reset(3, errorCode.none)],
    ['leaves', 60_000, (client) => client.socket.destroy()],
  ])('is not whole where the client %s', async (_name, sizeBytes, leave) => {
    const { handler, deliveries } = createLeader(() => bytes(sizeBytes));
    await using server = await openH2Server(handler);
    await using client = await server.connect([[4, 1_000]]);
    client.request(1, getFields());
    await client.until(() => client.outcome(1).body.length === 'whole road'.length);
    client.request(3, getFields());
    await client.until(() => client.outcome(3).body.length === 1_000);
    leave(client);
    await expect.poll(() => deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
  });

  it('that the server cuts is not whole', async () => {
    const { handler, deliveries } = createLeader(() => bytes(60_000));
    await using server = await openH2Server(handler);
    await using client = await server.connect([[4, 1_000]]);
    client.request(1, getFields());
    await client.until(() => client.outcome(1).body.length === 'whole road'.length);
    client.request(3, getFields());
    await client.until(() => client.outcome(3).body.length === 1_000);
    expect(server.server.cut()).toBe(1);
    await client.closed;
    expect([client.outcome(3).isEnded, deliveries]).toMatchObject([false, [{ complete: false }]]);
  });

  it('is finished before a connection that is drained ends', async () => {
    const { handler, deliveries } = createLeader(() => bytes(60_000));
    await using server = await openH2Server(handler);
    await using client = await server.connect([[4, 1_000]]);
    client.request(1, getFields());
    await client.until(() => client.outcome(1).body.length === 'whole road'.length);
    client.request(3, getFields());
    await client.until(() => client.outcome(3).body.length === 1_000);
    server.server.drain();
    await client.until(() => client.goawayCode !== undefined);
    client.windowUpdate(3, 100_000);
    expect(await client.whenOver(3)).toMatchObject({ isEnded: true, body: { length: 60_000 } });
    await client.closed;
    expect(deliveries).toEqual([{ bytesSent: 60_000, complete: true }]);
  });
});

describe('a client that takes too long', () => {
  it.each<[string, Partial<ListenerLimits>, number]>([
    ['reads nothing', { idleTimeoutMs: 30 * second }, 0],
    ['reads less than it must', { idleTimeoutMs: 30 * second, minBytesPerSecond: 10_000 }, 1_000],
    ['takes too long for the whole', { responseTimeoutMs: 30 * second }, 8_000],
  ])('has its stream reset: it %s', async (_name, limits, perSecond) => {
    const clock = createFakeClock();
    const { handler, deliveries } = createLeader(() => bytes(2_000_000));
    await using server = await openH2Server(handler, { now: clock.now, after: clock.after, limits });
    await using client = await server.connect();
    client.windowUpdate(0, 2_000_000);
    client.request(1, getFields());
    await client.whenOver(1);
    client.request(3, getFields());
    await untilQuiet(() => client.outcome(3).body.length);
    for (let step = 0; step < 90 && client.outcome(3).resetCode === undefined; step += 1) {
      if (step === 20) expect(client.outcome(3).resetCode).toBeUndefined();
      if (perSecond > 0) client.windowUpdate(3, perSecond);
      clock.advance(second);
      await client.roundTrip();
    }
    expect(client.outcome(3)).toMatchObject({ isEnded: false, resetCode: errorCode.internal });
    expect(deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
  });
});

it('a client that has taken its response is watched no longer', async () => {
  const clock = createFakeClock();
  const { handler, deliveries } = createLeader(() => bytes(60_000));
  const limits = { responseTimeoutMs: 30 * second };
  await using server = await openH2Server(handler, { now: clock.now, after: clock.after, limits });
  await using client = await server.connect([[4, 1_000]]);
  client.request(1, getFields());
  await client.until(() => client.outcome(1).body.length === 'whole road'.length);
  client.request(3, getFields());
  await client.until(() => client.outcome(3).body.length === 1_000);
  clock.advance(20 * second);
  // The rounds of the connections, and of those who are watched.
  expect(clock.pending).toBe(2);
  client.windowUpdate(3, 100_000);
  await expect.poll(() => deliveries).toEqual([{ bytesSent: 60_000, complete: true }]);
  clock.advance(10 * second);
  expect(clock.pending).toBe(1);
});

it('streams that are reset while they follow count as a flood', async () => {
  const { handler } = createLeader(() => bytes(60_000));
  await using server = await openH2Server(handler, { limits: { streamsPerConnection: 10 } });
  await using client = await server.connect([[4, 0]]);
  await using other = await server.connect();
  other.request(1, getFields());
  await other.whenOver(1);
  for (let stream = 1; stream < 200 && !client.isClosed; stream += 2) {
    client.request(stream, getFields());
    client.reset(stream);
    await client.roundTrip();
  }
  await client.closed;
  expect(client.goawayCode).toBe(errorCode.calm);
});
