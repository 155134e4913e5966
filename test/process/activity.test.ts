/** The activity of a server through the executable, with one process and with several: events, login, and the stop meanwhile. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Activity } from '../../src/admin/operations.ts';
import { progressStepBytes } from '../../src/telemetry/events.ts';
import { adminConfig, adminEnvironment, adminToken, findAdmin } from '../support/clients/admin-client.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';

const root = await mkdtemp(join(tmpdir(), 'rangeway-activity-'));
afterAll(() => rm(root, { recursive: true, force: true }));

const small = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\nbytes';

/** Opens the stream of events; `next` returns the next one, undefined at the end of the stream. */
async function openEvents(url: string, headers: Record<string, string>) {
  const response = await fetch(`${url}/api/v1/activity/stream`, { headers });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
  const reader = (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const next = async (): Promise<Activity | undefined> => {
    while (!text.includes('\n\n')) {
      const { value, done } = await reader.read();
      if (done) return undefined;
      text += value;
    }
    const end = text.indexOf('\n\n');
    const event = text.slice(0, end);
    text = text.slice(end + 2);
    const [, data = ''] = /^retry: 1000\nevent: activity\ndata: (.*)$/.exec(event) ?? [];
    return JSON.parse(data);
  };
  return { next, close: () => reader.cancel() };
}

describe.each([1, 2])('the activity of a server with %i workers', (workers) => {
  it('counts all requests, and a stop does not wait for its watchers', async () => {
    await using origin = await openScriptedOrigin(small);
    const dir = await mkdtemp(join(root, 'server-'));
    const config = {
      listen: '127.0.0.1:0',
      workers,
      store: { dir: join(dir, 'store') },
      log: { format: 'json' },
      admin: adminConfig,
      routes: [{ origin: origin.url }],
    };
    await using server = await startConfigured(dir, config, adminEnvironment);
    await server.waitFor(/dashboard: http:\/\/127\.0\.0\.1:\d+\//);
    const { url } = await findAdmin(server);

    // A browser logs in with a code that the owner of the socket gets.
    const bearer = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
    const codes = await fetch(`${url}/api/v1/session-codes`, { method: 'POST', headers: bearer, body: '{}' });
    const { code, url: named } = (await codes.json()) as { code: string; url: string };
    expect(named).toBe(url);
    const body = JSON.stringify({ code });
    const login = await fetch(`${url}/api/v1/session`, { method: 'POST', headers: bearer, body });
    expect(login.status).toBe(204);
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    const browser = { cookie, 'sec-fetch-site': 'same-origin' };
    const purge = (headers: Record<string, string>) =>
      fetch(`${url}/api/v1/purge`, {
        method: 'POST',
        headers: { ...browser, 'content-type': 'application/json', ...headers },
        body: '{"all":true}',
      }).then(({ status }) => status);
    expect([await purge({}), await purge({ 'x-rangeway-request': '1' })]).toEqual([403, 200]);

    const events = await openEvents(url, browser);
    const first = await events.next();
    expect(first?.workers.map(({ state }) => state)).toEqual(Array(workers).fill('serving'));
    expect(first).toMatchObject({ isReady: true, requests: { hit: 0, miss: 0 }, hottest: [] });
    expect(first?.latency.counts).toHaveLength((first?.latency.boundsMs.length ?? 0) + 1);
    for (let count = 0; count < 5; count += 1) await (await fetch(`${server.url}/film?token=s`)).text();

    // The counts of requests follow their responses, so an event may come before them.
    let last = await events.next();
    for (let count = 0; count < 30 && sumOf(last) < 5; count += 1) last = await events.next();
    expect(last).toMatchObject({
      requests: { miss: 1, hit: 4, failed: 0 },
      bytes: { sent: 25, fromOrigin: 5 },
      store: { entries: 1, diskBytes: expect.any(Number), diskLimitBytes: 10_000_000_000 },
      fills: [],
      fillCount: 0,
      hottest: [{ uri: `${server.url}/film?token=[redacted]`, hits: 5, bytes: 25 }],
    });
    expect(last?.origins.map(({ worker }) => worker)).toEqual(Array.from({ length: workers }, (_, at) => at + 1));
    const reread = await fetch(`${url}/api/v1/activity`, { headers: browser });
    expect(await reread.json()).toMatchObject({ requests: { hit: 4 } });
    // A row of the list is purged as it is shown: its secret is not needed.
    const byRow = await fetch(`${url}/api/v1/purge`, {
      method: 'POST',
      headers: bearer,
      body: JSON.stringify({ url: last?.hottest[0]?.uri, mode: 'hard' }),
    });
    expect(await byRow.json()).toMatchObject({ entries: 1 });

    const rest = (async () => {
      while ((await events.next()) !== undefined);
    })();
    expect(await server.stop('SIGTERM'), server.output()).toBe(0);
    await rest;
    expect(server.output()).not.toContain('did not end in time');
    expect(server.output()).not.toContain(cookie.split('=')[1]);
  });
});

describe.each([1, 2])('the bytes of a long transfer, with %i workers', (workers) => {
  it('are counted while it runs, and once', async () => {
    const isSeen = Promise.withResolvers<void>();
    const half = Buffer.alloc(2_000_000, 'x');
    await using origin = await openScriptedOrigin(async ({ send }) => {
      await send(
        `HTTP/1.1 200 OK\r\nContent-Length: ${2 * half.length}\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\n`,
      );
      await send(half);
      await isSeen.promise;
      await send(half);
    });
    const dir = await mkdtemp(join(root, 'server-'));
    const config = {
      ...{ listen: '127.0.0.1:0', workers, admin: adminConfig, routes: [{ origin: origin.url }] },
      store: { dir: join(dir, 'store') },
    };
    await using server = await startConfigured(dir, config, adminEnvironment);
    const { url } = await findAdmin(server);
    const headers = { authorization: `Bearer ${adminToken}` };
    const readBytes = async () => {
      const response = await fetch(`${url}/api/v1/activity`, { headers });
      return ((await response.json()) as Activity).bytes;
    };
    const download = fetch(`${server.url}/film`).then((response) => response.arrayBuffer());
    const most = half.length - progressStepBytes;
    await expect.poll(readBytes).toEqual({
      sent: expect.toSatisfy((bytes) => bytes > most),
      fromOrigin: expect.toSatisfy((bytes) => bytes > most),
    });
    const { sent, fromOrigin } = await readBytes();
    expect(Math.max(sent, fromOrigin)).toBeLessThanOrEqual(half.length);
    isSeen.resolve();
    expect((await download).byteLength).toBe(2 * half.length);
    await expect.poll(readBytes).toEqual({ sent: 2 * half.length, fromOrigin: 2 * half.length });
  });
});

describe.each([1, 2])('the bytes that a slow client gets, with %i workers', (workers) => {
  it('are counted while it reads, and once', async () => {
    // More than the sockets on both sides take.
    const sizeBytes = 32_000_000;
    const film = Buffer.alloc(sizeBytes, 'x');
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${sizeBytes}\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\n`;
    await using origin = await openScriptedOrigin(async ({ send }) => {
      await send(head);
      await send(film);
    });
    const dir = await mkdtemp(join(root, 'server-'));
    const config = {
      ...{ listen: '127.0.0.1:0', workers, admin: adminConfig, routes: [{ origin: origin.url }] },
      store: { dir: join(dir, 'store') },
    };
    await using server = await startConfigured(dir, config, adminEnvironment);
    const { url } = await findAdmin(server);
    const readSent = async () => {
      const response = await fetch(`${url}/api/v1/activity`, { headers: { authorization: `Bearer ${adminToken}` } });
      return ((await response.json()) as Activity).bytes.sent;
    };
    const [client] = await once(get(`${server.url}/film`), 'response');
    // It reads nothing yet.
    await expect.poll(readSent).toBeGreaterThan(progressStepBytes);
    expect(await readSent()).toBeLessThan(sizeBytes);
    let read = 0;
    for await (const chunk of client) read += chunk.length;
    expect(read).toBe(sizeBytes);
    await expect.poll(readSent).toBe(sizeBytes);
  });
});

function sumOf(activity: Activity | undefined): number {
  return (activity?.requests.hit ?? 0) + (activity?.requests.miss ?? 0);
}
