/** Listening on a Unix socket: permissions, stale sockets, and paths that cannot be used. */

import { mkdtemp, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { openListener, streamResponse, type TestListener, textResponse } from '../support/proxies/open-listener.ts';

let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-unix-'));
  path = join(dir, 'socket');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

const openAt = (mode?: number): Promise<TestListener> =>
  openListener(({ peer }) => textResponse(JSON.stringify(peer)), { place: { kind: 'unix', path, mode } });

describe('a Unix socket', () => {
  it('reports its address, and no addresses of its clients', async () => {
    await using listener = await openAt();
    expect(listener.listener.address).toEqual({ host: '', port: 0, url: `unix:${path}` });
    await using client = await listener.connect();
    expect((await client.exchange(get)).body.toString()).toBe('{"address":"","port":0}');
  });

  it.each([0o600, 0o660, 0o666, 0o777, 0o755])('has the configured permissions: %o', async (mode) => {
    const umask = process.umask(0o027);
    await using _listener = await openAt(mode);
    expect(process.umask(umask)).toBe(0o027);
    expect((await stat(path)).mode & 0o777).toBe(mode);
  });

  it('has the permissions of the umask where none are configured', async () => {
    const umask = process.umask(0o027);
    await using _listener = await openAt();
    process.umask(umask);
    expect((await stat(path)).mode & 0o777).toBe(0o750);
  });

  it('is removed when the listener is closed', async () => {
    await using listener = await openAt();
    await listener.listener.close(0);
    await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('is cut where a body that ends with the connection breaks off', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first');
      throw new ProxyError('origin_reset');
    }
    const place = { kind: 'unix', path, mode: undefined } as const;
    await using listener = await openListener(() => streamResponse(broken(), undefined), { place });
    await using client = await listener.connect();
    client.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n');
    expect(await client.rest()).toMatch(/first$/);
  });

  it('of a server that has ended is replaced', async () => {
    await leaveStale();
    await using listener = await openAt(0o600);
    await using client = await listener.connect();
    expect((await client.exchange(get)).status).toBe(200);
  });

  it('of a server that listens is left to it', async () => {
    await using first = await openAt();
    await expect(openAt()).rejects.toMatchObject({ code: 'EADDRINUSE', address: path });
    await using client = await first.connect();
    expect((await client.exchange(get)).status).toBe(200);
  });

  it.each<[what: string, make: () => Promise<unknown>, message: RegExp]>([
    ['a file is in its place', () => writeFile(path, 'precious'), /socket: the path exists and is not a socket$/],
    ['a link is in its place', () => symlink('elsewhere', path), /socket: the path exists and is not a socket$/],
    ['there is no such directory', () => rm(dir, { recursive: true }), /socket: there is no directory .*unix-\w+$/],
    ['the path is too long', async () => (path = join(dir, 'x'.repeat(150))), /x: the path is too long for a socket$/],
  ])('cannot be opened where %s', async (_what, make, message) => {
    await make();
    await expect(openAt()).rejects.toMatchObject({ name: 'ListenFault', message: expect.stringMatching(message) });
  });

  it('never takes the place of a file', async () => {
    await writeFile(path, 'precious');
    await openAt().catch(() => undefined);
    expect((await stat(path)).isFile()).toBe(true);
  });

  /** Leaves a stale socket. Node removes a socket that it closes, but not one that was renamed meanwhile. */
  async function leaveStale(): Promise<void> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen({ path }, resolve));
    await rename(path, `${path}.kept`);
    await new Promise((resolve) => server.close(resolve));
    await rename(`${path}.kept`, path);
  }
});
