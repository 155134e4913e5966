/** `rangeway explain` against a running server, which the command finds by itself. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../../src/cli/main.ts';
import type { Explanation } from '../../../src/delivery/explanation.ts';
import { RawClient } from '../../support/clients/raw-client.ts';
import { type RangewayProcess, startRangeway } from '../../support/processes/rangeway-process.ts';
import { openCommandGround } from '../../support/proxies/admin-commands-ground.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';

describe('rangeway explain', () => {
  let proxy: RangewayProcess;
  let url: string;
  let directory: string;
  let env: Record<string, string>;
  let requests = 0;
  const origin = createServer((request, response) => {
    requests += 1;
    const isPrivate = request.url === '/private';
    response.setHeader('cache-control', isPrivate ? 'private' : 'max-age=600');
    response.setHeader('etag', '"v1"');
    response.setHeader('vary', 'X-Variant');
    response.end('0123456789'.repeat(100));
  });
  /** Runs the command, and returns its output and exit code. */
  const explained = async (...argv: readonly string[]) => {
    const io = createFakeCliIo(env);
    const code = await run(['explain', ...argv], io);
    return { code, ...io.written };
  };
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'rw-explain-'));
    env = { TMPDIR: directory, XDG_RUNTIME_DIR: '', XDG_CACHE_HOME: join(directory, 'caches') };
    origin.listen(0, '127.0.0.1');
    await once(origin, 'listening');
    const { port } = origin.address() as { port: number };
    const args = [`http://127.0.0.1:${port}`, '--listen', '127.0.0.1:0', '--store', 'memory'];
    proxy = startRangeway(args, env);
    [, url = ''] = await proxy.waitFor(/ready on (http:[^\s",]+),/);
    await (await fetch(`${url}/film`, { headers: { 'x-variant': 'a' } })).text();
    await (await fetch(`${url}/private`)).text();
  });
  afterAll(async () => {
    await proxy[Symbol.asyncDispose]();
    origin.close().closeAllConnections();
    await rm(directory, { recursive: true, force: true });
  });

  it('prints the decision and its inputs, and sends no request to the origin', async () => {
    const before = requests;
    const { code, stdout, stderr } = await explained(`${url}/film`, '-r', '10-19', '-H', 'X-Variant: a');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^GET http:\/\/127\.0\.0\.1:\d+\/film\n\ndecision {5}hit: what is stored is fresh\n/);
    expect(stdout).toMatch(/^ {13}Cache-Status: rangeway; hit; ttl=\d+$/m);
    expect(stdout).toMatch(/^response {5}206, 10 of 1000 bytes\n {13}bytes 10-19: 10 here$/m);
    expect(stdout).toMatch(/^variant {6}X-Variant: a$/m);
    expect(stdout).toMatch(/^validators {3}ETag "v1": strong, the origin's$/m);
    expect(requests).toBe(before);
    await proxy.waitFor(/"event":"admin","action":"explain","peer":"unix","msg":"GET \S+\/film explained: hit, fresh"/);
    expect(proxy.output().match(/"event":"request"/g)).toHaveLength(2);
  });

  it('accepts a path, a URL without a scheme, fields (Host too), and a method', async () => {
    expect((await explained('/film')).stdout).toContain(`GET ${url}/film\n`);
    const address = url.replace('http://', '');
    const { stdout } = await explained(`${address}/film`, '-H', 'host: a.example', '-H', 'x-variant: b', '-X', 'HEAD');
    expect(stdout).toMatch(/^HEAD http:\/\/a\.example\/film\n\ndecision {5}pass: /);
    const json = await explained(`${url}/film`, '--json', '-H', 'x-variant: b', '-H', 'x-variant: c');
    expect((JSON.parse(json.stdout) as Explanation).variant).toEqual([['x-variant', 'b,c']]);
  });

  it('gives the reason why a response was not stored', async () => {
    expect((await explained(`${url}/private`)).stdout).toMatch(
      /^not stored {3}the last response \(200\), [\d.]+ s ago: it has private$/m,
    );
  });

  it('prints the explanation of the server with --json', async () => {
    const { code, stdout } = await explained(`${url}/film`, '--json', '--range', 'bytes=-5', '-H', 'x-variant: a');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ version: 1, plan: { status: 206, spans: [{ start: 995, end: 1000 }] } });
  });

  it('reports that a request would be refused', async () => {
    expect(await explained(`${url}/film`, '-H', 'host: a b')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'rangeway: the request would be refused: 400 The request is malformed.\n',
    });
  });

  it('gets a normal response on a listener for clients', async () => {
    await using client = await RawClient.open(Number(new URL(url).port));
    const lines = ['GET /film HTTP/1.1', 'Host: a', 'X-Variant: a', 'Connection: close, Rangeway-Explain'];
    client.send(`${[...lines, 'Rangeway-Explain: ?1'].join('\r\n')}\r\n\r\n`);
    const response = await client.response();
    expect(response?.status).toBe(200);
    expect(response?.body.toString()).toBe('0123456789'.repeat(100));
  });
});

describe('rangeway explain where the server sends no explanation that it knows', () => {
  it.each<[status: number, stderr: string]>([
    [404, 'rangeway: the request would be refused: 404 There is no route.\n'],
    [204, 'rangeway: the request would be answered without the cache: 204 There is no route.\n'],
  ])('%i', async (status, stderr) => {
    const explain = async () => ({ kind: 'answered', status, detail: 'There is no route.' }) as const;
    await using ground = await openCommandGround({ explain });
    expect(await ground.run('explain', '/film', '--client', '10.0.0.7')).toEqual({ code: 1, stdout: '', stderr });
    expect(ground.calls).toEqual([['explain', { url: '/film', method: 'GET', fields: [], client: '10.0.0.7' }]]);
  });

  it('another format', async () => {
    const explanation = { version: 2, uri: '', decision: {} } as unknown as Explanation;
    await using ground = await openCommandGround({ explain: async () => ({ kind: 'explained', explanation }) });
    const stderr = 'rangeway: the server explains in format 2, and this rangeway knows only format 1\n';
    expect(await ground.run('explain', '/film')).toEqual({ code: 1, stdout: '', stderr });
  });
});

describe('a misuse of rangeway explain', () => {
  it.each([
    [[], "missing required argument 'url'"],
    [['ftp://a/b'], 'Expected a URL such as http://127.0.0.1:8080/film.mp4, or a path.'],
    [['http://'], 'Expected a URL'],
    [['127.0.0.1:1', '-H', 'no field'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-H', 'a b: c'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-H', 'a: b\nc: d'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-X', 'GE T'], 'Expected a method such as HEAD.'],
  ])('%j', async (argv, message) => {
    const io = createFakeCliIo();
    const code = await run(['explain', ...argv], io);
    expect({ code, stdout: io.written.stdout }).toEqual({ code: 2, stdout: '' });
    expect(io.written.stderr).toContain(message);
  });
});
