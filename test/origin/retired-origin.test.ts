/** What happens to the connections of an origin that is retired. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import type { ConnectedOrigin } from '../../src/origin/origin.ts';
import { createUndiciOrigin, type UndiciOriginOptions } from '../../src/origin/undici-origin.ts';
import { backgroundClock } from '../../src/setup/system.ts';
import { originRequest, readBody } from '../support/origins/origin-request.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';

interface Ground extends AsyncDisposable {
  readonly origin: ConnectedOrigin;
  /** Numbers of connections: made so far, and open. */
  readonly made: number;
  readonly open: number;
  /** Lets the responses that are held back end. */
  release(): void;
}

const protocols = ['HTTP/1.1', 'HTTP/2', 'HTTP/1.1 where HTTP/2 is not offered'] as const;

async function openGround(protocol: (typeof protocols)[number]): Promise<Ground> {
  const held = Promise.withResolvers<void>();
  const answer = async (
    request: { url?: string | undefined },
    response: { write(text: string): unknown; end(text: string): unknown },
  ) => {
    if (request.url !== '/held') return void response.end('whole');
    response.write('half, ');
    await held.promise;
    response.end('half');
  };
  const isPlain = protocol === 'HTTP/1.1';
  const server: Server | Http2SecureServer = isPlain
    ? createServer(answer)
    : createSecureServer(
        { ...testCertificate, allowHTTP1: true, ALPNProtocols: protocol === 'HTTP/2' ? ['h2'] : ['http/1.1'] },
        answer,
      );
  const sockets = new Set<Socket>();
  let made = 0;
  server.on('connection', (socket: Socket) => {
    made += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const options: UndiciOriginOptions = {
    url: `${isPlain ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connectTimeoutMs: 5000,
    headersTimeoutMs: 5000,
    bodyTimeoutMs: 5000,
    connections: 2,
    connectionsPerClient: 2,
    keepAliveTimeoutMs: 600_000,
    requiresCloseNotify: true,
    tls: { ca: testAuthority, rejectUnauthorized: true },
  };
  const origin = isPlain ? createUndiciOrigin(options) : createHttp2Origin({ ...options, clock: backgroundClock });
  return {
    origin,
    get made() {
      return made;
    },
    get open() {
      return sockets.size;
    },
    release: held.resolve,
    async [Symbol.asyncDispose]() {
      await origin.close();
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const ask = async (origin: ConnectedOrigin, target = '/') => {
  const response = await origin.fetch(originRequest({ target }));
  return async () => {
    const { bytes, error } = await readBody(response);
    return error ?? bytes.toString();
  };
};

describe.each(protocols)('an origin over %s that is retired', (protocol) => {
  it('closes its idle connections', async () => {
    await using ground = await openGround(protocol);
    await (await ask(ground.origin))();
    expect(ground.open).toBe(1);
    ground.origin.retire();
    await expect.poll(() => ground.open).toBe(0);
  });

  it('lets a running transfer end, and then closes its connection', async () => {
    await using ground = await openGround(protocol);
    const read = await ask(ground.origin, '/held');
    ground.origin.retire();
    ground.release();
    expect(await read()).toBe('half, half');
    await expect.poll(() => ground.open).toBe(0);
  });

  it('sends later requests over connections that it does not keep', async () => {
    await using ground = await openGround(protocol);
    ground.origin.retire();
    for (let count = 0; count < 3; count += 1) expect(await (await ask(ground.origin))()).toBe('whole');
    expect(ground.made).toBeGreaterThan(0);
    await expect.poll(() => ground.open).toBe(0);
  });

  it('cuts running transfers when it is closed', async () => {
    await using ground = await openGround(protocol);
    ground.origin.retire();
    const read = await ask(ground.origin, '/held');
    const end = read();
    await ground.origin.close();
    expect(await end).toMatch(/^(origin_body_short|origin_reset|client_gone|internal)$/);
    await expect.poll(() => ground.open).toBe(0);
  });
});
