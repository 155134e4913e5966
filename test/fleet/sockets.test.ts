import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BoundPlace, bindPlace } from '../../src/fleet/supervisor-sockets.ts';
import { createReceivedSockets, type ReceivedSockets } from '../../src/fleet/worker-sockets.ts';
import { type BindPlace, ListenFault, type ListenSocket } from '../../src/listener/accept/bind.ts';
import { until } from '../support/clocks/until.ts';

const anyPort: BindPlace = { kind: 'tcp', host: '127.0.0.1', port: 0 };

let resources: AsyncDisposableStack;
let dir: string;
beforeEach(async () => {
  resources = new AsyncDisposableStack();
  dir = await mkdtemp(join(tmpdir(), 'rangeway-sockets-'));
});
afterEach(async () => {
  await resources.disposeAsync();
  await rm(dir, { recursive: true, force: true });
});

async function bound(place: BindPlace, workers = 2): Promise<BoundPlace> {
  const opened = await bindPlace(place, workers);
  resources.defer(() => opened.close());
  return opened;
}

/** Creates a worker that listens on received sockets and answers with its name. */
async function openServing(
  name: string,
  place: BindPlace,
): Promise<{ sockets: ReceivedSockets; listen(): Promise<ListenSocket> }> {
  const sockets = createReceivedSockets();
  return {
    sockets,
    async listen() {
      const socket = await sockets.openSocket(place, 'web');
      resources.defer(() => socket.close());
      await socket.take(
        (client: Socket) => client.end(name),
        (error) => expect.unreachable(error.message),
      );
      await sockets.begin();
      return socket;
    },
  };
}

async function ask(place: { port: number; host?: string } | { path: string }): Promise<string> {
  const client = connect(place);
  return await text(client);
}

const failure = (place: BindPlace): Promise<NodeJS.ErrnoException> =>
  bindPlace(place, 2).then(
    (opened) => {
      opened.close();
      throw new Error('it was bound');
    },
    (error: unknown) => error as NodeJS.ErrnoException,
  );

async function listening(place: object): Promise<Server> {
  const server = createServer().listen(place);
  await once(server, 'listening');
  resources.defer(() => void server.close());
  return server;
}

describe('a place for several workers', () => {
  it.runIf(process.platform === 'linux')('has a socket for each, all on one port that the system chooses', async () => {
    const { handles, address } = await bound(anyPort, 3);
    expect(handles.length).toBe(3);
    expect(address).toEqual({ host: '127.0.0.1', port: expect.any(Number), path: undefined });
    expect(address.port).toBeGreaterThan(0);
  });

  it('of a host name has an address of that host', async () => {
    const { address } = await bound({ kind: 'tcp', host: 'localhost', port: 0 });
    expect(['127.0.0.1', '::1']).toContain(address.host);
  });

  it('refuses connections before a worker listens', async () => {
    const { address } = await bound(anyPort);
    await expect(ask({ port: address.port })).rejects.toThrow('ECONNREFUSED');
  });

  it.each([
    { name: 'does not share its port', reusePort: false },
    { name: 'would share its port', reusePort: true },
  ])('that another server has is in use where that server $name', async ({ reusePort }) => {
    const server = await listening({ host: '127.0.0.1', port: 0, reusePort });
    const { port } = server.address() as AddressInfo;
    const error = await failure({ kind: 'tcp', host: '127.0.0.1', port });
    const facts = { code: 'EADDRINUSE', syscall: 'listen', address: '127.0.0.1', port };
    expect(error).toMatchObject({ ...facts, message: `listen EADDRINUSE: address already in use 127.0.0.1:${port}` });
  });

  it.each([
    { name: 'an address of another machine', host: '192.0.2.1', code: 'EADDRNOTAVAIL', syscall: 'listen' },
    {
      name: 'a host name that does not exist',
      host: 'no-such-host.invalid',
      code: 'ENOTFOUND',
      syscall: 'getaddrinfo',
    },
  ])('at $name fails as a listener of one process does', async ({ host, code, syscall }) => {
    const server = createServer();
    const alone = once(server.listen({ host, port: 0 }), 'listening').catch((error: unknown) => error);
    const together = await failure({ kind: 'tcp', host, port: 0 });
    expect(together).toMatchObject({ code, syscall });
    const { message, ...facts } = (await alone) as Error;
    expect({ ...together }).toMatchObject(facts);
    expect(together.message).toBe(message);
  });

  it('at a path has the configured permissions, and is removed at the end', async () => {
    const path = join(dir, 'web.sock');
    const { handles, close, address } = await bound({ kind: 'unix', path, mode: 0o640 });
    expect(handles.length).toBe(1);
    expect(address).toEqual({ host: '', port: 0, path });
    expect((await stat(path)).mode & 0o777).toBe(0o640);
    close();
    await until('the path is free', async () => !existsSync(path));
  });

  it('at a path with a leftover socket replaces that', async () => {
    const path = join(dir, 'web.sock');
    const before = await bindPlace({ kind: 'unix', path, mode: undefined }, 2);
    const { ino } = await stat(path);
    await bound({ kind: 'unix', path, mode: undefined });
    expect((await stat(path)).ino).not.toBe(ino);
    // `before` is not closed here: that would remove the path, which the new socket has now.
    expect(before.handles.length).toBe(1);
  });

  it.each([
    { name: 'where a server listens', put: (path: string) => listening({ path }), code: 'EADDRINUSE' },
    { name: 'where a file is', put: (path: string) => writeFile(path, ''), message: 'exists and is not a socket' },
  ])('at a path $name fails as a listener of one process does', async ({ put, code, message = '' }) => {
    const path = join(dir, 'web.sock');
    await put(path);
    const error = await failure({ kind: 'unix', path, mode: undefined });
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
    expect(error instanceof ListenFault).toBe(message !== '');
  });

  it('that was passed and is no socket fails with the message of a listener', async () => {
    const error = await failure({ kind: 'passed', fd: 9999, name: 'systemd:web' });
    expect(error).toBeInstanceOf(ListenFault);
    expect(error.message).toMatch(
      /^cannot listen on systemd:web: what was passed as file descriptor 9999 is no socket/,
    );
  });
});

describe('received sockets', () => {
  it('are listened on only once everything is ready', async () => {
    const { handles, address } = await bound(anyPort, 1);
    const { sockets, listen } = await openServing('one', anyPort);
    sockets.add('web', 1, handles[0] as never);
    const socket = await sockets.openSocket(anyPort, 'web');
    expect(socket.address).toEqual(address);
    await expect(ask({ port: address.port })).rejects.toThrow('ECONNREFUSED');
    await listen();
    expect(await ask({ port: address.port })).toBe('one');
  });

  it('that have not arrived are a fault', async () => {
    const { openSocket } = createReceivedSockets();
    await expect(openSocket(anyPort, 'web')).rejects.toThrow('cannot listen on web: its socket has not come');
  });

  it('give each worker its share of the connections', async () => {
    const { handles, address } = await bound(anyPort, 2);
    for (const [index, handle] of handles.entries()) {
      const { sockets, listen } = await openServing(`w${index}`, anyPort);
      sockets.add('web', index + 1, handle);
      await listen();
    }
    const served = new Set<string>();
    for (let count = 0; served.size < 2 && count < 500; count += 1) served.add(await ask({ port: address.port }));
    expect([...served].sort()).toEqual(['w0', 'w1']);
  });

  it('of another worker are listened on besides the own ones, until they are left', async () => {
    const { handles, address } = await bound(anyPort, 2);
    const one = await openServing('one', anyPort);
    one.sockets.add('web', 1, handles[0] as never);
    await one.listen();
    one.sockets.add('web', 2, handles[1] as never);
    const askOften = () => Promise.all(Array.from({ length: 40 }, () => ask({ port: address.port })));
    expect(new Set(await askOften())).toEqual(new Set(['one']));
    one.sockets.leave('web', 2);
    expect(new Set(await askOften())).toEqual(new Set(['one']));
  });

  it('pass connections to the last taker', async () => {
    const { handles, address } = await bound(anyPort, 1);
    const { sockets, listen } = await openServing('before', anyPort);
    sockets.add('web', 1, handles[0] as never);
    const socket = await listen();
    await socket.take(
      (client) => client.end('after'),
      () => undefined,
    );
    expect(await ask({ port: address.port })).toBe('after');
  });

  it('that were closed can be received again under the same name', async () => {
    const place: BindPlace = { kind: 'unix', path: join(dir, 'web.sock'), mode: undefined };
    const { sockets, listen } = await openServing('one', place);
    const before = await bound(place);
    sockets.add('web', 0, before.handles[0] as never);
    await (await listen()).close();
    before.close();
    await until('the path is free', async () => !existsSync(place.path));
    const after = await bound(place);
    sockets.add('web', 0, after.handles[0] as never);
    await listen();
    expect(await ask({ path: place.path })).toBe('one');
  });
});
