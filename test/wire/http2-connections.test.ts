/** HTTP/2 connections: how the server takes them over, how clients leave them, and how many streams they have. */

import { connect } from 'node:http2';
import { describe, expect, it } from 'vitest';
import { errorCode, frameType, getFields, setting } from '../support/clients/h2-raw-client.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { textResponse } from '../support/proxies/open-listener.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';

describe('a connection', () => {
  it.each<[string, boolean, boolean]>([
    ['paused', false, false],
    ['flowing', true, false],
    ['paused, over TLS', false, true],
    ['flowing, over TLS', true, true],
  ])('can be taken over after bytes were read and put back: %s', async (_name, isFlowing, tls) => {
    await using server = await openH2Server(() => textResponse('x'), {
      tls,
      before(socket, serve) {
        socket.once('data', (chunk) => {
          socket.pause();
          socket.unshift(chunk);
          if (isFlowing) socket.resume();
          serve();
        });
      },
    });
    await using client = await server.connect();
    client.request(
      1,
      getFields().map(([name, value]) => [name, name === ':scheme' && tls ? 'https' : value]),
    );
    expect((await client.whenOver(1)).body.toString()).toBe('x');
  });

  it('over TLS takes only requests with the scheme https', async () => {
    await using server = await openH2Server(({ scheme }) => textResponse(scheme), { tls: true });
    await using client = await server.connect();
    client.request(1, getFields());
    expect((await client.whenOver(1)).status).toBe(400);
    client.request(
      3,
      getFields().map(([name, value]) => [name, name === ':scheme' ? 'https' : value]),
    );
    expect((await client.whenOver(3)).body.toString()).toBe('https');
    expect(server.events).toEqual([
      expect.objectContaining({ kind: 'refusal', status: 400, error: 'malformed_request' }),
    ]);
  });

  it.each(['end', 'reset'] as const)('that its client closes by %s has its requests aborted', async (how) => {
    await using server = await openH2Server(() => new Promise(() => {}));
    await using client = await server.connect();
    for (const stream of [1, 3, 5]) client.request(stream, getFields());
    await client.roundTrip();
    const signals = server.requests.map(({ signal }) => signal);
    if (how === 'end') client.socket.end();
    else client.socket.resetAndDestroy();
    await expect.poll(() => signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
    await expect.poll(() => server.sockets.size).toBe(0);
    await server.server.close();
  });
});

describe('many streams', () => {
  it('of one connection are answered as they are ready', async () => {
    await using server = await openH2Server(({ target }) => textResponse(target.repeat(5_000)), { tls: true });
    const client = connect(`https://localhost:${server.port}`, { ca: testAuthority });
    client.setMaxListeners(0);
    const answers = Array.from({ length: 100 }, async (_, index) => {
      const stream = client.request({ ':path': `/${index}` });
      let size = 0;
      for await (const chunk of stream) size += chunk.length;
      return size === `/${index}`.length * 5_000;
    });
    expect((await Promise.all(answers)).every(Boolean)).toBe(true);
    await new Promise<void>((resolve) => client.close(resolve));
  });

  it('that run one after the other never exceed the limit', async () => {
    await using server = await openH2Server(() => textResponse('x'), { limits: { streamsPerConnection: 1 } });
    await using client = await server.connect();
    for (let stream = 1; stream < 400; stream += 2) {
      client.request(stream, getFields());
      expect((await client.whenOver(stream)).status).toBe(200);
    }
  });

  it('beyond the limit are refused, and no handler sees them', async () => {
    await using server = await openH2Server(() => new Promise(() => {}), { limits: { streamsPerConnection: 2 } });
    await using client = await server.connect();
    const settings = client.frames.find(({ type, flags }) => type === frameType.settings && flags === 0)?.payload;
    const values = Array.from({ length: (settings?.length ?? 0) / 6 }, (_, at) => [
      settings?.readUInt16BE(6 * at),
      settings?.readUInt32BE(6 * at + 2),
    ]);
    expect(values).toContainEqual([setting.maxStreams, 2]);
    for (const stream of [1, 3, 5]) client.request(stream, getFields());
    await Promise.race([client.whenOver(5), client.closed]);
    const code = client.outcome(5).resetCode ?? client.goawayCode;
    expect([errorCode.refused, errorCode.protocol]).toContain(code);
    expect(server.requests.length).toBe(2);
  });
});
