/** HTTP/1 clients that read their responses too slowly, on a fake clock. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Delivery, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import type { RawClient } from '../support/clients/raw-client.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openListener, streamResponse, textResponse } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const mebibyte = 1024 * 1024;
const body = Buffer.alloc(256 * mebibyte);

function setUp(limits: Partial<ListenerLimits>, response: () => ProxyResponse | Promise<ProxyResponse>) {
  const clock = createFakeClock();
  const deliveries: Delivery[] = [];
  const handler = async () => ({
    ...(await response()),
    onDelivered: (delivery: Delivery) => deliveries.push(delivery),
  });
  return { clock, deliveries, opening: openListener(handler, { now: clock.now, after: clock.after, limits }) };
}

const large = (): ProxyResponse => ({
  status: 200,
  fields: [],
  body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
});

/** Reads a head, then stops reading, and waits until the buffers of the connection are full. */
async function fill(client: RawClient): Promise<void> {
  await client.head();
  await untilQuiet(() => client.socket.bytesRead);
}

/** Advances the clock by `seconds`, one second at a time. */
function pass(clock: { advance(ms: number): void }, seconds: number): void {
  for (let step = 0; step < seconds; step += 1) clock.advance(1_000);
}

describe('a client', () => {
  it('that stops reading is cut, and its body is incomplete', async () => {
    const { clock, deliveries, opening } = setUp({ minBytesPerSecond: 100, idleTimeoutMs: 60_000 }, large);
    await using listener = await opening;
    await using client = await listener.connect();
    client.send(get);
    await fill(client);
    pass(clock, 55);
    expect(deliveries).toEqual([]);
    pass(clock, 75);
    await expect.poll(() => deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
    expect((await client.rest()).length).toBeLessThan(body.length);
  });

  it('that keeps reading in time is not cut', async () => {
    const { clock, deliveries, opening } = setUp({ minBytesPerSecond: 100_000, idleTimeoutMs: 60_000 }, large);
    await using listener = await opening;
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    for (let round = 0; round < 8; round += 1) {
      expect((await client.take(16 * mebibyte)).length).toBe(16 * mebibyte);
      pass(clock, 55);
    }
    expect(deliveries).toEqual([]);
  });

  it.each<[string, () => ProxyResponse]>([
    ['many bytes', large],
    ['no bytes', () => streamResponse({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }, 10)],
  ])('is cut when its response takes longer than the limit: %s', async (_name, response) => {
    const { clock, deliveries, opening } = setUp({ responseTimeoutMs: 600_000 }, response);
    await using listener = await opening;
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    pass(clock, 590);
    expect(deliveries).toEqual([]);
    pass(clock, 20);
    await expect.poll(() => deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
    expect((await client.rest()).length).toBeLessThan(body.length);
  });

  it('that waits for a slow response is never too slow', async () => {
    const release = Promise.withResolvers<void>();
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('slow ');
      await release.promise;
      yield Buffer.from('body');
    }
    const { clock, opening } = setUp({ minBytesPerSecond: 1_000_000, idleTimeoutMs: 10_000 }, () =>
      streamResponse(slow(), 9),
    );
    await using listener = await opening;
    await using client = await listener.connect();
    client.send(get);
    await client.head();
    await client.take(5);
    pass(clock, 120);
    release.resolve();
    expect((await client.take(4)).toString()).toBe('body');
  });

  it('whose response was sent when the limit struck may send more requests', async () => {
    const clock = createFakeClock();
    const { now, after } = clock;
    const handler = () => {
      // The limit strikes after the response is written, and before that is known.
      process.nextTick(pass, clock, 20);
      return textResponse('x');
    };
    await using listener = await openListener(handler, { now, after, limits: { responseTimeoutMs: 10_000 } });
    await using client = await listener.connect();
    for (let count = 0; count < 2; count += 1) expect((await client.exchange(get)).body.toString()).toBe('x');
  });

  it('that has left after its response leaves no timer behind', async () => {
    const { clock, opening } = setUp({ minBytesPerSecond: 100, idleTimeoutMs: 10_000 }, () => textResponse('x'));
    await using listener = await opening;
    await using client = await listener.connect();
    await client.exchange(get);
    client.socket.destroy();
    await expect
      .poll(() => {
        pass(clock, 10);
        return clock.pending;
      })
      .toBe(0);
  });
});

describe.each(['tcp', 'tls'] as const)('a client that sends many requests ahead, over %s', (carrier) => {
  const piece = patternBytes(0, 4 * mebibyte);
  const answer = ({ target }: ProxyRequest): ProxyResponse => {
    const chunk = piece.subarray(Number(target.slice(1)));
    return { status: 200, fields: [], body: { kind: 'bytes', sizeBytes: chunk.length, chunks: [chunk] } };
  };
  const requests = (count: number) => Array.from({ length: count }, (_, at) => get.replace('/', `/${at}`)).join('');
  const expectAll = async (client: RawClient, count: number) => {
    for (let at = 0; at < count; at += 1) {
      expect((await client.response())?.body.equals(piece.subarray(at)), `response ${at}`).toBe(true);
    }
  };

  it('and reads nothing, has only a few of them taken until it reads', async () => {
    await using listener = await openListener(answer, { carrier });
    await using client = await listener.connect();
    client.send(requests(50));
    await untilQuiet(() => client.socket.bytesRead);
    expect(listener.requests.length).toBeLessThan(10);
    client.send(requests(1));
    await expectAll(client, 50);
    await expectAll(client, 1);
  });

  it('gets the responses in order when all become ready at once', async () => {
    const release = Promise.withResolvers<void>();
    const handler = (request: ProxyRequest) => release.promise.then(() => answer(request));
    await using listener = await openListener(handler, { carrier });
    await using client = await listener.connect();
    client.send(requests(50));
    await expect.poll(() => listener.requests.length).toBe(50);
    release.resolve();
    await expectAll(client, 50);
  });
});

it('a client that ends its side after its requests gets all responses, however slowly it reads', async () => {
  const chunk = Buffer.alloc(16 * mebibyte, 'c');
  const body = { kind: 'bytes', sizeBytes: chunk.length, chunks: [chunk] } as const;
  await using listener = await openListener(() => ({ status: 200, fields: [], body }));
  await using client = await listener.connect();
  client.send(get.repeat(5));
  client.end();
  for (let count = 0; count < 5; count += 1) expect((await client.response())?.body.length).toBe(chunk.length);
  expect(await client.rest()).toBe('');
});

it('a client that ends its side in the middle of a stream and reads nothing stops the producer of the stream', async () => {
  const accepted = Promise.withResolvers<Socket>();
  const onSocket = (message: unknown) => accepted.resolve((message as { readonly socket: Socket }).socket);
  subscribe('net.server.socket', onSocket);
  const left = Promise.withResolvers<void>();
  let madeBytes = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    const socket = await accepted.promise;
    for (; socket.writableLength === 0; await new Promise(setImmediate)) yield body.subarray(0, 16 * 1024);
    await left.promise;
    for (; ; madeBytes += mebibyte) yield body.subarray(0, mebibyte);
  }
  await using listener = await openListener(() => streamResponse(endless(), undefined));
  await using client = await listener.connect();
  unsubscribe('net.server.socket', onSocket);
  client.send(get);
  await fill(client);
  client.end();
  const { promise: socket } = accepted;
  await expect.poll(async () => (await socket).readableEnded).toBe(true);
  left.resolve();
  await untilQuiet(() => madeBytes);
  expect(madeBytes).toBeLessThan(4 * mebibyte);
});
