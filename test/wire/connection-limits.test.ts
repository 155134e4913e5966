/** Limits on the number of connections, and what happens to connections above them. */

import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createConnectionLimits } from '../../src/listener/accept/connection-limits.ts';
import { untilClosed } from '../support/clocks/until-closed.ts';
import { openListener, type TestListener, textResponse } from '../support/proxies/open-listener.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const noLimits = { connections: 0, connectionsPerClient: 0, isExempt: () => false };

/** Opens a connection, and sends bytes. Returns the first 15 characters of the answer, or how the connection ended. */
async function connectOnce(port: number, bytes = get): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  const ended = Promise.withResolvers<string>();
  socket.on('error', ({ message }) => ended.resolve(message));
  socket.on('close', () => ended.resolve('closed'));
  socket.on('data', (chunk) => ended.resolve(chunk.toString().slice(0, 15)));
  socket.write(bytes);
  const outcome = await ended.promise;
  if (outcome.startsWith('HTTP')) openSockets.push(socket);
  return outcome;
}

const openSockets: ReturnType<typeof connect>[] = [];
const closeAll = async () => {
  await Promise.all(
    openSockets.splice(0).map((socket) => {
      socket.destroy();
      return untilClosed(socket);
    }),
  );
};

const served = 'HTTP/1.1 200 OK';
const disconnected = expect.stringMatching(/ECONNRESET|EPIPE|closed/);
const refusal = (detail: string) => expect.objectContaining({ kind: 'refusal', error: 'too_many_connections', detail });

describe('connections above the limit', () => {
  it('are closed at once, until others have ended', async () => {
    const connections = createConnectionLimits({ ...noLimits, connections: 2 });
    await using listener = await openListener(() => textResponse('x'), { connections });
    expect(await connectOnce(listener.port)).toBe(served);
    expect(await connectOnce(listener.port)).toBe(served);
    expect(await connectOnce(listener.port)).toEqual(disconnected);
    expect(listener.events).toEqual([refusal('of all clients')]);
    await closeAll();
    await expect.poll(() => connectOnce(listener.port)).toBe(served);
    await closeAll();
  });

  it('are counted over several listeners together', async () => {
    const connections = createConnectionLimits({ ...noLimits, connections: 1 });
    await using first = await openListener(() => textResponse('x'), { connections });
    await using second = await openListener(() => textResponse('x'), { connections });
    expect(await connectOnce(first.port)).toBe(served);
    expect(await connectOnce(second.port)).toEqual(disconnected);
    await closeAll();
  });

  it('of one client are closed at once, and other clients are not affected', async () => {
    const connections = createConnectionLimits({ ...noLimits, connectionsPerClient: 1 });
    const options = { connections, proxyProtocolFrom: () => true };
    await using listener = await openListener(() => textResponse('x'), options);
    const as = (address: string) => connectOnce(listener.port, `PROXY TCP6 ${address} ::1 1 2\r\n${get}`);
    expect(await as('2001:db8::1')).toBe(served);
    expect(await as('2001:db8::2')).toEqual(disconnected);
    expect(await as('2001:db8:0:1::1')).toBe(served);
    expect(listener.events).toEqual([refusal('of one client')]);
    expect(listener.events[0]).toMatchObject({ peer: '2001:db8::2' });
    await closeAll();
    await expect.poll(() => as('2001:db8::3')).toBe(served);
    await closeAll();
  });

  it('are counted over TLS too, and a failed handshake gives its place back', async () => {
    const connections = createConnectionLimits({ ...noLimits, connections: 1 });
    await using listener = await openListener(() => textResponse('x'), { connections, carrier: 'tls' });
    for (let count = 0; count < 3; count += 1) {
      const socket = connect({ port: listener.port, host: '127.0.0.1' });
      socket.on('error', () => {});
      socket.end('no TLS');
      await untilClosed(socket.resume());
      await expect.poll(() => freePlaces(connections)).toBe(1);
    }
    await using client = await listener.connect();
    expect((await client.exchange(get)).status).toBe(200);
    expect(freePlaces(connections)).toBe(0);
  });

  it('do not fill the log', async () => {
    const connections = createConnectionLimits({ ...noLimits, connections: 1 });
    await using listener: TestListener = await openListener(() => textResponse('x'), { connections });
    expect(await connectOnce(listener.port)).toBe(served);
    await Promise.all(Array.from({ length: 50 }, () => connectOnce(listener.port)));
    expect(listener.events).toHaveLength(10);
    await closeAll();
    await listener.listener.close(0);
    expect(listener.events.slice(10)).toEqual([refusal('40 more connections, in 10 seconds')]);
  });
});

function freePlaces({ enter }: ReturnType<typeof createConnectionLimits>): number {
  const place = enter();
  place?.leave();
  return place === undefined ? 0 : 1;
}
