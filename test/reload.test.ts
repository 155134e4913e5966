/** Reloads of a server in this process, through its API and its admin operations. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LogLevel } from '../src/admin/operations.ts';
import type { Config } from '../src/config/schema.ts';
import { type RunningServer, type StartOptions, start } from '../src/main.ts';
import type { ServerEvent } from '../src/telemetry/events.ts';
import {
  configOf,
  openPlainOrigin,
  type PlainOrigin,
  type WrittenConfig,
} from './support/processes/reloaded-server.ts';

let origin: PlainOrigin;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-reload-'));
  origin = await openPlainOrigin(({ headers }, response) => {
    response.setHeader('cache-control', 'no-store').end(`the key is ${headers['x-key']}`);
  });
});
afterEach(async () => {
  await origin[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const reading = (config: Config) => ({ config, source: { value: {}, directory: '/' } });

const configured = (more: WrittenConfig = {}): Config =>
  configOf({ listen: '127.0.0.1:0', routes: [{ origin: origin.url }], ...more });

async function running(
  config: Config,
  options: StartOptions = {},
): Promise<{ server: RunningServer; stages: () => string[] } & AsyncDisposable> {
  const events: ServerEvent[] = [];
  const server = await start(config, { emit: (event) => events.push(event), ...options });
  return {
    server,
    stages: () => events.flatMap((event) => (event.kind === 'life' ? [event.stage] : [])),
    [Symbol.asyncDispose]: () => server.close({ graceMs: 0 }),
  };
}

describe('a reload', () => {
  it('reads the files that the configuration names again, even without a configuration file', async () => {
    const key = join(dir, 'key');
    await writeFile(key, 'old');
    const fields = { toOrigin: { setSecret: { 'x-key': `file:${key}` } } };
    await using started = await running(configured({ routes: [{ origin: origin.url, fields }] }));
    const ask = async () => (await fetch(started.server.url)).text();
    expect(await ask()).toBe('the key is old');
    await writeFile(key, 'new');
    expect(await ask()).toBe('the key is old');
    await started.server.reload();
    expect(await ask()).toBe('the key is new');
    expect(started.stages()).toEqual(['ready', 'reloading', 'reloaded']);
  });

  it('uses the configuration that it reads, and sets the log level', async () => {
    const levels: LogLevel[] = [];
    const log = { readLevel: () => levels.at(-1) ?? 'info', setLevel: (level: LogLevel) => void levels.push(level) };
    const next = configured({
      log: { level: 'debug' },
      routes: [{ origin: origin.url, fields: { toOrigin: { set: { 'x-key': 'b' } } } }],
    });
    await using started = await running(configured(), { log, readAgain: async () => reading(next) });
    await started.server.operations.reload();
    expect(levels).toEqual(['debug']);
    expect(await (await fetch(started.server.url)).text()).toBe('the key is b');
    expect(await started.server.operations.readConfig()).toMatchObject({ log: { level: 'debug' } });
  });

  it('fails with the message of StartOptions.explain where a configuration cannot be used', async () => {
    const next = configured({ routes: [{ origin: origin.url, access: { basic: 'file:/nowhere' } }] });
    const explain = (error: unknown) => `it says: ${(error as Error).message.slice(0, 10)}`;
    await using started = await running(configured(), { explain, readAgain: async () => reading(next) });
    await expect(started.server.reload()).rejects.toMatchObject({ reason: 'invalid', message: 'it says: the secret' });
    expect(started.stages()).toEqual(['ready', 'reloading', 'reload_failed']);
  });

  it('renews the token of the admin listener, or changes nothing where the token cannot be read', async () => {
    const token = join(dir, 'token');
    const tokens = ['a'.repeat(40), 'b'.repeat(40)] as const;
    await writeFile(token, tokens[0]);
    const admin = { listen: `unix:${join(dir, 'admin')}`, token: `file:${token}` };
    const before = configured({ admin });
    const after = configured({
      admin,
      routes: [{ origin: origin.url, fields: { toOrigin: { set: { 'x-key': 'b' } } } }],
    });
    await using started = await running(before, { readAgain: async () => reading(after) });
    await rm(token);
    await expect(started.server.reload()).rejects.toMatchObject({ message: expect.stringContaining(token) });
    expect(await (await fetch(started.server.url)).text()).toBe('the key is undefined');
    await writeFile(token, tokens[1]);
    await started.server.reload();
    expect(await (await fetch(started.server.url)).text()).toBe('the key is b');
  });

  it('that hangs does not keep the server from stopping, and has no effect afterwards', async () => {
    const read = Promise.withResolvers<ReturnType<typeof reading>>();
    const started = await running(configured(), { readAgain: () => read.promise });
    const reloaded = started.server.reload();
    await started.server.close({ graceMs: 0 });
    expect(started.stages()).toEqual(['ready', 'reloading', 'stopping', 'stopped']);
    read.resolve(reading(configured()));
    await expect(reloaded).rejects.toMatchObject({ reason: 'unavailable' });
  });

  it('is refused once the server stops', async () => {
    const started = await running(configured());
    const closed = started.server.close({ graceMs: 0 });
    await expect(started.server.reload()).rejects.toMatchObject({ reason: 'unavailable' });
    await closed;
    expect(started.stages()).toEqual(['ready', 'stopping', 'stopped']);
  });
});
