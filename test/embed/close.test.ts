/** A program that uses several Rangeways and closes them: what they leave behind. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createSecureServer } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/processes/programs.ts';
import { atEnd, listening, openOrigin, whole } from '../support/proxies/embedded-ground.ts';
import { testCertificate } from '../support/values/tls-certificate.ts';

/** Uses Rangeways of every kind in every way, closes them, and prints how the process differs. Nothing ends it but its end. */
const program = `
  import { once } from 'node:events';
  import { readdirSync } from 'node:fs';
  import { createServer, get } from 'node:http';
  import { connect, createServer as createHttp2Server } from 'node:http2';
  import { text } from 'node:stream/consumers';
  import { setTimeout as sleep } from 'node:timers/promises';
  const [entry, plain, secure, temporary] = process.argv.slice(1);
  process.env.TMPDIR = temporary;
  const { createRangeway } = await import(entry);
  process.stdout.write('');
  const look = () => ({
    resources: process.getActiveResourcesInfo().sort(),
    listeners: process.eventNames().map((name) => String(name) + ' ' + process.listenerCount(name)).sort(),
    globals: Reflect.ownKeys(globalThis).map(String).sort(),
    descriptors: readdirSync('/proc/self/fd').length,
  });
  const ask = async (rangeway) => {
    const request = () => new Request('http://a.example/file', { headers: { range: 'bytes=0-9' } });
    const fetched = await rangeway.fetch(request());
    await fetched.arrayBuffer();
    const server = createServer(rangeway.handler).listen(0, '127.0.0.1');
    const http2 = createHttp2Server(rangeway.handler).listen(0, '127.0.0.1');
    await Promise.all([once(server, 'listening'), once(http2, 'listening')]);
    const [response] = await once(get({ port: server.address().port, path: '/file', agent: false }), 'response');
    await text(response);
    const session = connect('http://127.0.0.1:' + http2.address().port);
    const stream = session.request({ ':path': '/file' });
    const [fields] = await once(stream, 'response');
    await text(stream);
    session.close();
    await once(session, 'close');
    await Promise.all([server, http2].map((each) => new Promise((resolve) => each.close(resolve))));
    return [fetched.status, response.statusCode, fields[':status']];
  };
  const configs = [
    plain,
    { store: { type: 'disk', maxSizeBytes: '10MB' }, routes: [{ origin: plain }] },
    { routes: [{ origin: { url: secure, protocol: 'http2', insecureTls: true } }] },
    {
      routes: [{ limits: { rate: { requests: 1000, seconds: 60 } }, origin: { url: plain, alternatives: ['http://127.0.0.1:9'], health: { check: { path: '/file', intervalSeconds: 1 } } } }],
    },
  ];
  const round = async () => {
    const rangeways = await Promise.all(configs.map((config) => createRangeway(config)));
    const statuses = await Promise.all(rangeways.map(ask));
    await Promise.all(rangeways.map((rangeway) => rangeway.close()));
    return statuses;
  };
  // Handles are closed in a later turn of the event loop than their owner.
  const lookUntil = async (isSame) => {
    let seen = look();
    for (let turns = 0; turns < 1000 && !isSame(seen); turns += 1) {
      await sleep(10);
      seen = look();
    }
    return seen;
  };
  const start = look();
  const isAsAtStart = ({ resources }) => String(resources) === String(start.resources);
  const statuses = [await round()];
  // Node itself keeps some descriptors after their first use, and zod two globals.
  const before = await lookUntil(isAsAtStart);
  for (let rounds = 0; rounds < 3; rounds += 1) statuses.push(await round());
  const after = await lookUntil((seen) => isAsAtStart(seen) && seen.descriptors === before.descriptors);
  console.log(JSON.stringify({ start, before, after, statuses }));`;

describe('close', () => {
  it('leaves nothing open and nothing changed, so that the program ends', async () => {
    const plain = (await openOrigin()).url;
    const secureOrigin = createSecureServer({ ...testCertificate, allowHTTP1: false }, (_request, response) => {
      response.writeHead(200, { 'cache-control': 'max-age=60', etag: '"v1"', 'content-length': whole.length });
      response.end(whole);
    });
    const secure = (await listening(secureOrigin)).replace('http:', 'https:');
    const temporary = await mkdtemp(join(tmpdir(), 'rangeway-close-'));
    atEnd(() => rm(temporary, { recursive: true, force: true }));
    const entry = new URL('../../src/index.ts', import.meta.url).href;
    const directory = fileURLToPath(new URL('../..', import.meta.url));
    const args = ['--input-type=module', '--eval', program, entry, plain, secure, temporary];
    const run = await runProgram(process.execPath, args, directory);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const { start, before, after, statuses } = JSON.parse(run.stdout.toString());
    for (const round of statuses) expect(round).toEqual(Array(4).fill([206, 200, 200]));
    expect(after).toEqual(before);
    expect([after.resources, after.listeners]).toEqual([start.resources, start.listeners]);
    expect(await readdir(temporary)).toEqual([]);
  });
});
