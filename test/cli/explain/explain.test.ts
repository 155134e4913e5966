/** `rangeway explain` against running servers: Rangeway, and what is none. */

import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../../src/cli/main.ts';
import type { Explanation } from '../../../src/delivery/deliver-explanation.ts';
import { createFakeCliIo } from '../../support/fake-cli-io.ts';
import { type RangewayProcess, startProxy } from '../../support/rangeway-process.ts';
import { testCertificate } from '../../support/tls-certificate.ts';

/** Runs the command; tells what it wrote and its exit code. */
async function explained(...argv: readonly string[]) {
  const io = createFakeCliIo();
  const code = await run(['explain', ...argv], io);
  return { code, ...io.written };
}

const servers: Server[] = [];
function closeServers(): void {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
}

async function listen(server: Server): Promise<number> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

const serverOf = async (answer: RequestListener) => `http://127.0.0.1:${await listen(createServer(answer))}`;

describe('rangeway explain', () => {
  let proxy: RangewayProcess & { readonly url: string };
  let requests = 0;
  const origin = createServer((request, response) => {
    requests += 1;
    const isPrivate = request.url === '/private';
    response.setHeader('cache-control', isPrivate ? 'private' : 'max-age=600');
    response.setHeader('etag', '"v1"');
    response.setHeader('vary', 'X-Variant');
    response.end('0123456789'.repeat(100));
  });
  beforeAll(async () => {
    origin.listen(0, '127.0.0.1');
    await once(origin, 'listening');
    const { port } = origin.address() as { port: number };
    proxy = await startProxy(`http://127.0.0.1:${port}`);
    await (await fetch(`${proxy.url}/film`, { headers: { 'x-variant': 'a' } })).text();
    await (await fetch(`${proxy.url}/private`)).text();
  });
  afterAll(async () => {
    await proxy[Symbol.asyncDispose]();
    origin.close().closeAllConnections();
  });

  it('prints the decision and what it is made from, and asks nothing of the origin', async () => {
    const before = requests;
    const { code, stdout, stderr } = await explained(`${proxy.url}/film`, '-r', '10-19', '-H', 'X-Variant: a');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^GET http:\/\/127\.0\.0\.1:\d+\/film\n\ndecision {5}hit: what is stored is fresh\n/);
    expect(stdout).toMatch(/^ {13}Cache-Status: rangeway; hit; ttl=\d+$/m);
    expect(stdout).toMatch(/^response {5}206, 10 of 1000 bytes\n {13}bytes 10-19: 10 here$/m);
    expect(stdout).toMatch(/^variant {6}X-Variant: a$/m);
    expect(stdout).toMatch(/^validators {3}ETag "v1": strong, the origin's$/m);
    expect(requests).toBe(before);
  });

  it('takes fields, Host among them, a method, and a URL without a scheme', async () => {
    const address = proxy.url.replace('http://', '');
    const { stdout } = await explained(`${address}/film`, '-H', 'host: a.example', '-H', 'x-variant: b', '-X', 'HEAD');
    expect(stdout).toMatch(/^HEAD http:\/\/a\.example\/film\n\ndecision {5}pass: /);
    const json = await explained(`${proxy.url}/film`, '--json', '-H', 'x-variant: b', '-H', 'x-variant: c');
    expect((JSON.parse(json.stdout) as Explanation).variant).toEqual([['x-variant', 'b,c']]);
  });

  it('tells why something was not stored', async () => {
    expect((await explained(`${proxy.url}/private`)).stdout).toMatch(
      /^not stored {3}the last response \(200\), [\d.]+ s ago: it has private$/m,
    );
  });

  it('prints what Rangeway says with --json', async () => {
    const { code, stdout } = await explained(
      `${proxy.url}/film`,
      '--json',
      '--range',
      'bytes=-5',
      '-H',
      'x-variant: a',
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ version: 1, plan: { status: 206, spans: [{ start: 995, end: 1000 }] } });
  });

  it('tells that a request would be refused', async () => {
    expect(await explained(`${proxy.url}/film`, '-H', 'host: a b')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'rangeway: the request would be refused: 400 The request is malformed.\n',
    });
  });
});

describe('rangeway explain where there is no explanation', () => {
  afterEach(closeServers);

  const stranger = (url: string) =>
    `rangeway: no explanation came from ${url}: no Rangeway answers there, or it explains nothing to this address (see explain.peers)\n`;

  it.each<[string, RequestListener]>([
    ['a page', (_, response) => response.end('<html>')],
    ['an endless body', (_, response) => response.writeHead(200).write('x')],
    [
      "an error of Rangeway's that is about the origin",
      (_, response) => {
        response.writeHead(502, { 'proxy-status': 'rangeway; error=connection_refused' }).end('{}');
      },
    ],
    ['an error of somebody else', (_, response) => response.writeHead(404).end('{"detail":"no"}')],
  ])('but %s', async (_name, answer) => {
    const url = await serverOf(answer);
    expect(await explained(`${url}/film`)).toEqual({ code: 1, stdout: '', stderr: stranger(url) });
  });

  it('but one of another form', async () => {
    const url = await serverOf((_, response) => response.setHeader('rangeway-explain', '?1').end('{"version":2}'));
    const stderr = 'rangeway: the answer is of form 2, and this rangeway knows form 1 only\n';
    expect(await explained(url)).toMatchObject({ code: 1, stderr });
  });

  it('but one that is broken off, or no JSON', async () => {
    const cut = await serverOf((_, response) => {
      response.writeHead(200, { 'rangeway-explain': '?1', 'content-length': '100' }).write('{');
      setImmediate(() => response.destroy());
    });
    expect((await explained(cut)).stderr).toMatch(/^rangeway: http:\S+ cannot be asked: .+\n$/);
    const text = await serverOf((_, response) => response.setHeader('rangeway-explain', '?1').end('<'));
    expect((await explained(text)).stderr).toMatch(/^rangeway: http:\S+ cannot be asked: .+\n$/);
  });

  it('but nobody who listens', async () => {
    const server = createServer();
    const url = `http://127.0.0.1:${await listen(server)}`;
    server.close();
    await once(server, 'close');
    servers.length = 0;
    expect(await explained(`${url}/film`)).toEqual({
      code: 1,
      stdout: '',
      stderr: `rangeway: nothing listens at ${url}: the connection was refused\n`,
    });
  });

  it('but a certificate that nobody vouches for, unless any is taken', async () => {
    const secure = createSecureServer(testCertificate, (request, response) => {
      response.setHeader('rangeway-explain', '?1').end(JSON.stringify({ version: 1, asked: request.headers }));
    });
    const url = `https://127.0.0.1:${await listen(secure)}`;
    const { code, stderr } = await explained(url);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^rangeway: https:\S+ cannot be asked: .*; --insecure takes any certificate\n$/);
    const taken = await explained(url, '-k', '--json');
    expect(taken.code).toBe(0);
    expect(JSON.parse(taken.stdout)).toMatchObject({
      asked: { 'rangeway-explain': '?1', connection: 'close, Rangeway-Explain' },
    });
  });
});

describe('a misuse of rangeway explain', () => {
  it.each([
    [[], "missing required argument 'url'"],
    [['ftp://a/b'], 'Expected a URL such as http://127.0.0.1:8080/film.mp4.'],
    [['http://'], 'Expected a URL'],
    [['127.0.0.1:1', '-H', 'no field'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-H', 'a b: c'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-H', 'a: b\nc: d'], "Expected 'Name: value'."],
    [['127.0.0.1:1', '-X', 'GE T'], 'Expected a method such as HEAD.'],
  ])('%j', async (argv, message) => {
    const { code, stdout, stderr } = await explained(...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});
