/** The admin listener on its sockets: their permissions, and bad clients. */

import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { createAdminGround, openAdmin } from '../../src/setup/admin.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { fakeOperations } from '../support/proxies/fake-operations.ts';
import { openAdminGround } from './admin-ground.ts';

async function openAt(listen: string) {
  const checked = checkConfig({ admin: { listen }, routes: [{ origin: 'http://origin.test' }] }, '.');
  if (checked.kind !== 'ok') throw new Error(JSON.stringify(checked));
  const admin = await openAdmin(
    checked.config,
    createAdminGround(fakeOperations().operations, () => {}),
  );
  if (admin === undefined) throw new Error('none is configured');
  return { ...admin, [Symbol.asyncDispose]: () => admin.close(0) };
}

describe('a Unix socket', () => {
  it('is for its owner alone, whatever the umask', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-admin-'));
    const path = join(dir, 'admin.sock');
    const umask = process.umask(0);
    try {
      await using admin = await openAt(`unix:${path}`);
      expect(admin.address).toBe(`unix:${path}`);
      expect((await stat(path)).mode & 0o777).toBe(0o600);
      expect(process.umask()).toBe(0);
      await using client = await RawClient.open(path);
      // Only its owner can connect, so no token is needed and any host name is accepted.
      const answer = await client.exchange('GET /api/v1/fills HTTP/1.1\r\nHost: whatever\r\n\r\n');
      expect(answer.status).toBe(200);
    } finally {
      process.umask(umask);
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('is logged as the peer of its clients', async () => {
    await using ground = await openAdminGround({ reach: 'owner', token: undefined });
    await ground.ask('POST', '/api/v1/reload', ['Content-Type: application/json']);
    expect(ground.events).toMatchObject([{ action: 'reload', peer: 'unix' }]);
  });
});

describe('bad clients', () => {
  const host = 'Host: localhost\r\n';
  it.each<[why: string, request: string, status: number]>([
    ['bytes that are not HTTP', 'hello\r\n\r\n', 400],
    ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n', 400],
    ['two Hosts', `GET /healthz HTTP/1.1\r\n${host}${host}\r\n`, 400],
    ['two lengths', `POST /api/v1/purge HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`, 400],
    [
      'a length and chunks',
      `POST /api/v1/purge HTTP/1.1\r\n${host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
      400,
    ],
    ['a target that is too long', `GET /${'a'.repeat(786_432)} HTTP/1.1\r\n${host}\r\n`, 414],
    ['too large fields', `GET /healthz HTTP/1.1\r\n${host}A: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['too many fields', `GET /healthz HTTP/1.1\r\n${host}${'A: 1\r\n'.repeat(101)}\r\n`, 431],
    ['TRACE', `TRACE /healthz HTTP/1.1\r\n${host}\r\n`, 405],
    ['CONNECT', `CONNECT localhost:22 HTTP/1.1\r\n${host}\r\n`, 405],
    ['an upgrade', `GET /healthz HTTP/1.1\r\n${host}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n`, 200],
    ['another scheme', `GET https://localhost/healthz HTTP/1.1\r\n${host}\r\n`, 400],
    ['the absolute form', `GET http://localhost/healthz HTTP/1.1\r\n${host}\r\n`, 200],
    ['the absolute form with another host name', `GET http://evil.test/healthz HTTP/1.1\r\n${host}\r\n`, 421],
    ['HTTP/1.0 without Host', 'GET /healthz HTTP/1.0\r\n\r\n', 200],
  ])('%s', async (_why, request, status) => {
    await using ground = await openAdminGround({ token: undefined });
    await using client = await ground.connect();
    client.send(request);
    expect((await client.response())?.status).toBe(status);
    expect(ground.calls).toEqual([]);
  });

  it('can open a thousand connections, and others are answered once they have left', async () => {
    await using ground = await openAdminGround({ token: undefined });
    const clients = await Promise.all(Array.from({ length: 1000 }, () => ground.connect().catch(() => undefined)));
    await until(
      'most are turned away',
      async () => clients.filter((each) => each?.socket.destroyed === false).length <= 100,
    );
    // Accepted connections are answered meanwhile.
    const [accepted] = clients.filter((each) => each?.socket.destroyed === false);
    expect((await accepted?.exchange('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'))?.status).toBe(200);
    await Promise.all(clients.map((each) => each?.[Symbol.asyncDispose]()));
    await until('there is room', async () => {
      const answer = await ground.ask('GET', '/healthz', []).catch(() => undefined);
      return answer?.status === 200;
    });
    expect(ground.events.length).toBeLessThan(30);
  });
});

describe('openAdmin', () => {
  it('returns undefined where no listener is configured', async () => {
    const { operations } = fakeOperations();
    expect(
      await openAdmin(
        { admin: undefined },
        createAdminGround(operations, () => {}),
      ),
    ).toBeUndefined();
  });

  it('rejects with the error of the system where its address is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    await expect(openAt(`127.0.0.1:${port}`)).rejects.toMatchObject({ code: 'EADDRINUSE', port });
    server.close();
  });
});
