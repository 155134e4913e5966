/** Timeouts of HTTP/2 clients, on a fake clock; and how connections are drained. */

import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Delivery, Hit, ProxyResponse } from '../../src/http/message.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import { errorCode, frameType, getFields, H2RawClient, postFields } from '../support/clients/h2-raw-client.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { streamResponse, textResponse } from '../support/proxies/open-listener.ts';
import { NoFields } from '../support/values/no-fields.ts';

const second = 1_000;

/** A response with a body of `sizeBytes` bytes in memory. */
function bytes(sizeBytes: number, onDelivered?: (delivery: Delivery) => void): ProxyResponse {
  return {
    status: 200,
    fields: [],
    body: { kind: 'bytes', sizeBytes, chunks: [Buffer.alloc(sizeBytes)] },
    onDelivered,
  };
}

/** A hit of three bytes. */
function sampleHit(): Hit {
  return {
    status: 200,
    fields: new NoFields(),
    ageSeconds: 0,
    cacheStatus: 'rangeway; hit',
    contentRange: undefined,
    more: [],
    sizeBytes: 3,
    chunks: [Buffer.from('hit')],
    file: undefined,
    begin: () => {},
    giveBack: () => {},
    onDelivered: () => {},
  };
}

function setUp(handler: Parameters<typeof openH2Server>[0], limits: Partial<ListenerLimits>) {
  const clock = createFakeClock();
  return { clock, opening: openH2Server(handler, { now: clock.now, after: clock.after, limits }) };
}

/** Advances the clock second by second, with a round trip after each second. */
async function pass(clock: { advance(ms: number): void }, client: H2RawClient, seconds: number): Promise<void> {
  for (let step = 0; step < seconds && !client.isClosed; step += 1) {
    clock.advance(second);
    await client.roundTrip();
  }
}

describe('a connection', () => {
  it.each<[string, Partial<ListenerLimits>, boolean]>([
    ['that never has a request', { headersTimeoutMs: 30 * second }, false],
    ['that has no further request', { keepAliveTimeoutMs: 30 * second }, true],
    ['that has no further request, where only the idle time is limited', { idleTimeoutMs: 30 * second }, true],
  ])('%s ends with GOAWAY and NO_ERROR, even if its client pings', async (_name, limits, hasRequest) => {
    const { clock, opening } = setUp(() => textResponse('x'), limits);
    await using server = await opening;
    await using client = await server.connect();
    if (hasRequest) {
      client.request(1, getFields());
      await client.whenOver(1);
    }
    await pass(clock, client, 29);
    expect(client.isClosed).toBe(false);
    await pass(clock, client, 3);
    await client.closed;
    expect(client.goawayCode).toBe(errorCode.none);
    expect(server.events).toEqual([]);
  });

  it('that gets hits is kept from the last one on', async () => {
    const { clock, opening } = setUp(
      Object.assign(() => textResponse('x'), { hit: sampleHit }),
      { keepAliveTimeoutMs: 30 * second },
    );
    await using server = await opening;
    await using client = await server.connect();
    for (let stream = 1; stream < 9; stream += 2) {
      client.request(stream, getFields());
      expect((await client.whenOver(stream)).body.toString()).toBe('hit');
      await pass(clock, client, 20);
    }
    expect(client.isClosed).toBe(false);
    expect(server.requests).toEqual([]);
    await pass(clock, client, 13);
    await client.closed;
    expect(client.goawayCode).toBe(errorCode.none);
  });

  it('with a request that waits for its response is kept', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    const limits = { headersTimeoutMs: second, keepAliveTimeoutMs: second, idleTimeoutMs: second };
    const { clock, opening } = setUp(() => release.promise, limits);
    await using server = await opening;
    await using client = await server.connect();
    client.request(1, getFields());
    await pass(clock, client, 60);
    release.resolve(textResponse('late'));
    expect((await client.whenOver(1)).body.toString()).toBe('late');
  });

  it('is closed even if its client does not end its side', async () => {
    const { clock, opening } = setUp(() => textResponse('x', { closeConnection: true }), {});
    await using server = await opening;
    await using client = await server.connect();
    client.socket.allowHalfOpen = true;
    client.request(1, getFields());
    await once(client.socket, 'end');
    await expect.poll(() => clock.pending).toBe(1);
    for (let step = 0; step < 6; step += 1) clock.advance(second);
    await expect.poll(() => server.sockets.size).toBe(0);
  });
});

describe('a client that takes too long', () => {
  it.each<[string, Partial<ListenerLimits>]>([
    ['for the next bytes', { idleTimeoutMs: 30 * second }],
    ['for the whole body', { requestTimeoutMs: 30 * second }],
  ])('with its body makes reading the body fail: %s', async (_name, limits) => {
    const { clock, opening } = setUp(async ({ body }) => {
      try {
        for await (const _chunk of body ?? []);
        return textResponse('whole');
      } catch (error) {
        return textResponse((error as { code: string }).code, { status: 408 });
      }
    }, limits);
    await using server = await opening;
    await using client = await server.connect();
    client.request(1, postFields(), { endStream: false });
    client.data(1, 'part');
    await pass(clock, client, 29);
    expect(client.outcome(1).status).toBeUndefined();
    if (limits.requestTimeoutMs !== undefined) client.data(1, 'more');
    await pass(clock, client, 6);
    expect(await client.whenOver(1)).toMatchObject({ status: 408, body: Buffer.from('request_timeout') });
    expect(await client.roundTrip()).toBe(true);
  });

  it.each<[string, Partial<ListenerLimits>, number]>([
    ['reads nothing', { idleTimeoutMs: 30 * second }, 0],
    ['reads below the minimum rate', { idleTimeoutMs: 30 * second, minBytesPerSecond: 10_000 }, 1_000],
    ['takes too long for the whole response', { responseTimeoutMs: 30 * second }, 20_000],
  ])('with a response has its stream reset, and no other stream: it %s', async (_name, limits, perSecond) => {
    const deliveries: Delivery[] = [];
    const { clock, opening } = setUp(
      ({ target }) =>
        target === '/small' ? textResponse('small') : bytes(2_000_000, (delivery) => deliveries.push(delivery)),
      limits,
    );
    await using server = await opening;
    await using client = await server.connect();
    client.windowUpdate(0, 2_000_000);
    client.request(1, getFields());
    await client.until(() => client.outcome(1).body.length === 65_535);
    for (let step = 0; step < 90 && client.outcome(1).resetCode === undefined; step += 1) {
      if (step === 20) expect(client.outcome(1).resetCode).toBeUndefined();
      if (perSecond > 0) client.windowUpdate(1, perSecond);
      await pass(clock, client, 1);
    }
    expect(client.outcome(1)).toMatchObject({ isEnded: false, resetCode: errorCode.internal });
    expect(deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
    client.request(3, getFields('/small'));
    expect((await client.whenOver(3)).body.toString()).toBe('small');
  });

  it('is not one that reads faster than the minimum rate', async () => {
    const limits = { idleTimeoutMs: 30 * second, minBytesPerSecond: 10_000 };
    const { clock, opening } = setUp(() => bytes(2_000_000), limits);
    await using server = await opening;
    await using client = await server.connect();
    client.windowUpdate(0, 3_000_000);
    client.request(1, getFields());
    for (let step = 0; step < 200 && !client.outcome(1).isEnded; step += 1) {
      client.windowUpdate(1, 12_000);
      await pass(clock, client, 1);
    }
    expect(client.outcome(1)).toMatchObject({ isEnded: true, body: { length: 2_000_000 } });
  });

  it('is not one that waits for a slow response', async () => {
    const release = Promise.withResolvers<void>();
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('slow ');
      await release.promise;
      yield Buffer.from('body');
    }
    const limits = { idleTimeoutMs: second, minBytesPerSecond: 1_000_000 };
    const { clock, opening } = setUp(() => streamResponse(slow(), 9), limits);
    await using server = await opening;
    await using client = await server.connect();
    client.request(1, getFields());
    await pass(clock, client, 60);
    release.resolve();
    expect((await client.whenOver(1)).body.toString()).toBe('slow body');
  });
});

describe('draining', () => {
  it('ends idle connections at once, used and unused ones', async () => {
    await using server = await openH2Server(() => textResponse('x'));
    await using unused = await H2RawClient.connect(server.port);
    await using used = await server.connect();
    used.request(1, getFields());
    await used.whenOver(1);
    server.server.drain();
    await Promise.all([unused.closed, used.closed]);
    expect(used.goawayCode).toBe(errorCode.none);
    expect(server.server.cut()).toBe(0);
    await server.server.close();
  });

  it('lets running requests finish, takes requests that have arrived, and refuses later ones with GOAWAY', async () => {
    const release = Promise.withResolvers<ProxyResponse>();
    await using server = await openH2Server(({ target }) =>
      target === '/slow' ? release.promise : textResponse(target),
    );
    await using client = await server.connect();
    client.request(1, getFields('/slow'));
    await client.roundTrip();
    client.request(3, getFields('/in-time'));
    server.server.drain();
    expect((await client.whenOver(3)).body.toString()).toBe('/in-time');
    await client.until(() => client.goawayCode !== undefined);
    const goaway = client.frames.find(({ type }) => type === frameType.goaway);
    expect([goaway?.payload.readUInt32BE(0), client.goawayCode]).toEqual([3, errorCode.none]);
    client.request(5, getFields('/too-late'));
    release.resolve(textResponse('slow'));
    expect((await client.whenOver(1)).body.toString()).toBe('slow');
    await client.closed;
    expect(server.requests.map(({ target }) => target)).toEqual(['/slow', '/in-time']);
    await server.server.close();
  });

  it('ends connections that open later', async () => {
    await using server = await openH2Server(() => textResponse('x'));
    server.server.drain();
    await using client = await H2RawClient.connect(server.port);
    await client.closed;
    await expect.poll(() => server.sockets.size).toBe(0);
  });

  it('and then cutting returns the number of busy connections, and no cut response looks complete', async () => {
    const deliveries: Delivery[] = [];
    await using server = await openH2Server(({ target }) =>
      target === '/never' ? new Promise(() => {}) : bytes(1_000_000, (delivery) => deliveries.push(delivery)),
    );
    await using idle = await server.connect();
    await using waiting = await server.connect();
    await using reading = await server.connect();
    waiting.request(1, getFields('/never'));
    reading.request(1, getFields('/'));
    await waiting.roundTrip();
    await reading.until(() => reading.outcome(1).body.length === 65_535);
    const { signal } = server.requests.find(({ target }) => target === '/never') ?? {};
    server.server.drain();
    await idle.closed;
    expect(server.server.cut()).toBe(2);
    await Promise.all([waiting.closed, reading.closed]);
    await server.server.close();
    expect(signal?.aborted).toBe(true);
    expect(reading.outcome(1).isEnded).toBe(false);
    expect(reading.outcome(1).resetCode).not.toBe(errorCode.none);
    expect(deliveries).toMatchObject([{ complete: false, error: { code: 'client_gone' } }]);
  });
});
