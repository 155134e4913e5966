import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { openScriptedOrigin, type ScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { type RangewayProcess, startProxy } from '../support/processes/rangeway-process.ts';

const root = await mkdtemp(join(tmpdir(), 'rangeway-shutdown-'));
afterAll(() => rm(root, { recursive: true, force: true }));

const sent = 'the first half, ';
const held = 'the second half';
const request = 'GET /slow HTTP/1.1\r\nHost: files.example\r\n\r\n';

/** A proxy in front of an origin, and a client that waits for the second half of a response. */
interface SlowResponse extends AsyncDisposable {
  readonly proxy: RangewayProcess;
  readonly port: number;
  readonly client: RawClient;
  readonly origin: ScriptedOrigin;
  /** Lets the origin send the second half. */
  release(): void;
}

async function openSlowResponse(shutdownGraceSeconds: number): Promise<SlowResponse> {
  await using resources = new AsyncDisposableStack();
  const config = join(root, `${shutdownGraceSeconds}.json`);
  await writeFile(config, JSON.stringify({ shutdownGraceSeconds }));
  const { promise: mayGoOn, resolve: release } = Promise.withResolvers<void>();
  const origin = resources.use(
    await openScriptedOrigin(async ({ send }) => {
      await send(`HTTP/1.1 200 OK\r\nContent-Length: ${sent.length + held.length}\r\n\r\n${sent}`);
      await mayGoOn;
      await send(held);
    }),
  );
  const proxy = resources.use(await startProxy(origin.url, ['--config', config, '--store', 'memory']));
  const port = Number(new URL(proxy.url).port);
  const client = resources.use(await RawClient.open(port));
  client.send(request);
  expect((await client.head())?.status).toBe(200);
  expect((await client.take(sent.length)).toString()).toBe(sent);
  const kept = resources.move();
  return {
    proxy,
    port,
    client,
    origin,
    release,
    async [Symbol.asyncDispose]() {
      // Ends the origin's script, so that closing the origin does not wait for it.
      release();
      await kept.disposeAsync();
    },
  };
}

it('SIGQUIT lets the response finish and exits 0, as SIGTERM does', async () => {
  await using slow = await openSlowResponse(3600);
  const ended = slow.proxy.stop('SIGQUIT');
  await slow.proxy.waitFor(/"stage":"stopping"/);
  slow.release();
  expect((await slow.client.take(held.length)).toString()).toBe(held);
  expect(await ended).toBe(0);
});

describe.each(['SIGUSR1', 'SIGUSR2'] as const)('%s', (signal) => {
  it('ends nothing and opens no debugger while a response is under way', async () => {
    await using slow = await openSlowResponse(3600);
    process.kill(slow.proxy.pid, signal);
    // The signal was delivered before the process reads from this connection.
    await using other = await RawClient.open(slow.port);
    other.send(request);
    slow.release();
    expect((await other.head())?.status).toBe(200);
    expect((await slow.client.take(held.length)).toString()).toBe(held);
    expect(await slow.proxy.stop('SIGTERM')).toBe(0);
    expect(slow.proxy.output()).not.toMatch(/debugger/i);
  });
});

it('a debugger that Node opens is named in the log', async () => {
  await using proxy = await startProxy('http://127.0.0.1:9', undefined, { NODE_OPTIONS: '--inspect=127.0.0.1:0' });
  await proxy.waitFor(/"level":"warn".*the debugger of Node listens on ws:\/\/127\.0\.0\.1:\d+\//);
  expect(await proxy.stop('SIGTERM')).toBe(0);
});

describe('SIGTERM while a response is under way', () => {
  it('takes no new connection, lets the response finish, and exits 0', async () => {
    await using slow = await openSlowResponse(3600);
    const ended = slow.proxy.stop('SIGTERM');
    await slow.proxy.waitFor(/"stage":"stopping"/);
    await expect(RawClient.open(slow.port)).rejects.toThrow('ECONNREFUSED');

    slow.release();
    expect((await slow.client.take(held.length)).toString()).toBe(held);
    expect(await slow.client.rest()).toBe('');
    expect(await slow.client.closed).toBeUndefined();
    expect(await ended).toBe(0);
    expect(slow.proxy.output()).toMatch(/"stage":"stopped".*\n$/);
    expect(slow.proxy.output()).not.toContain('"stage":"cut"');
  });

  it('cuts the response when shutdownGraceSeconds are over, and exits 0', async () => {
    await using slow = await openSlowResponse(0.1);
    expect(await slow.proxy.stop('SIGTERM')).toBe(0);
    expect(await slow.client.rest()).toBe('');
    await slow.client.closed;
    expect(slow.proxy.output()).toContain('"stage":"cut"');
    expect(slow.proxy.output()).toMatch(/"event":"request".*"complete":false/);
  });

  it('is not held up by idle connections', async () => {
    await using slow = await openSlowResponse(3600);
    slow.release();
    await slow.client.take(held.length);
    await using silent = await RawClient.open(slow.port);
    const idle = [slow.client, silent];
    for (const exchanges of [1, 2]) {
      const client = await RawClient.open(slow.port);
      idle.push(client);
      for (let count = 0; count < exchanges; count += 1) {
        expect((await client.exchange(request)).body.toString()).toBe(sent + held);
      }
    }
    expect(await slow.proxy.stop('SIGTERM')).toBe(0);
    expect(await Promise.all(idle.map((client) => client.closed))).toEqual(idle.map(() => undefined));
    expect(slow.proxy.output()).not.toContain('"stage":"cut"');
  });

  it('is not held up by a fill whose readers have left', async () => {
    await using slow = await openSlowResponse(3600);
    slow.client.reset();
    await slow.proxy.waitFor(/"event":"request".*"complete":false/);
    expect(slow.origin.openConnections).toBe(1);
    expect(await slow.proxy.stop('SIGTERM')).toBe(0);
    await slow.origin.allClosed();
  });
});

describe('a second signal', () => {
  it('right after the first, as npm passes on a Ctrl-C, changes nothing', async () => {
    await using slow = await openSlowResponse(3600);
    const ended = slow.proxy.stop('SIGINT');
    void slow.proxy.stop('SIGINT');
    await slow.proxy.waitFor(/"stage":"stopping"/);
    slow.release();
    expect((await slow.client.take(held.length)).toString()).toBe(held);
    expect(await ended).toBe(0);
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('%s, later, ends the process at once with %i', async (signal, code) => {
    await using slow = await openSlowResponse(3600);
    void slow.proxy.stop('SIGTERM');
    await slow.proxy.waitFor(/"stage":"stopping"/);
    const ended = { code: undefined as number | null | undefined };
    // Repeats the signal until it comes late enough after the first to count.
    await until('the process has ended', async () => {
      void slow.proxy.stop(signal).then((code) => (ended.code = code));
      return ended.code !== undefined;
    });
    expect(ended.code).toBe(code);
    expect(await slow.client.rest()).toBe('');
  });
});
