/** The proxy's own error responses, through the executable: formats, error pages, and what they must not disclose. */

import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured, startRangeway } from '../support/processes/rangeway-process.ts';

const html = '<!doctype html>\n<title>Away</title>\n<p>Back in a minute – über alles hinweg.\n';
const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

/** A request for a tunnel gets the same error. */
const handshake = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

let dir: string;
let origin: Server;
let originPort: number;
let deadPort: number;
let rangeway: RangewayProcess;
let base: string;

beforeAll(async () => {
  origin = createServer((asked, response) => {
    const status = asked.url?.includes('own') === true ? 502 : 200;
    response.writeHead(status, { 'content-type': 'x/origin', 'cache-control': 'max-age=60' }).end('the origin');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originPort = (origin.address() as AddressInfo).port;
  const dead = createServer().listen(0, '127.0.0.1');
  await once(dead, 'listening');
  deadPort = (dead.address() as AddressInfo).port;
  await once(dead.close(), 'close');

  dir = await mkdtemp(join(tmpdir(), 'rangeway-errors-'));
  await writeFile(join(dir, '502.html'), html);
  await writeFile(join(dir, 'error.JSON'), '{"away":true}');
  await writeFile(join(dir, 'range.txt'), 'no such range');
  const errorPages = { '502': './502.html', '5xx': './error.JSON', '416': './range.txt' };
  const live = { url: `http://127.0.0.1:${originPort}` };
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    pseudonym: 'edge',
    log: { format: 'json' },
    routes: [
      { match: { pathPrefix: '/dead' }, origin: `http://127.0.0.1:${deadPort}` },
      { match: { pathPrefix: '/paged/dead' }, origin: `http://127.0.0.1:${deadPort}`, errorPages },
      { match: { pathPrefix: '/paged' }, origin: live, errorPages },
      { match: { pathPrefix: '/live' }, origin: live },
    ],
  };
  const started = await startConfigured(dir, config);
  rangeway = started;
  base = started.url;
});

afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

interface Got {
  readonly status: number | undefined;
  readonly fields: IncomingHttpHeaders;
  readonly body: string;
}

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  const asked = request(base + path, { method, headers, agent: false }).end();
  const [response] = await once(asked, 'response');
  return { status: response.statusCode, fields: response.headers, body: await text(response) };
}

const json = 'application/problem+json';
const plain = 'text/plain; charset=utf-8';

describe('an error of the proxy itself', () => {
  it.each<[string, Record<string, string>, number, string, string, RegExp]>([
    ['/dead', {}, 502, 'connection_refused', json, /^\{"title":"Bad Gateway","status":502,"detail":"[^"]+"\}\n$/],
    ['/dead', { accept: '*/*' }, 502, 'connection_refused', json, /^\{/],
    ['/dead', { accept: 'application/json, text/plain;q=0.5' }, 502, 'connection_refused', json, /^\{/],
    [
      '/dead',
      { accept: 'text/plain' },
      502,
      'connection_refused',
      plain,
      /^502 Bad Gateway\nThe origin cannot be reached\.\n$/,
    ],
    ['/dead', { accept: browser }, 502, 'connection_refused', plain, /^502 Bad Gateway\n/],
    ['/nowhere', { accept: browser }, 404, 'destination_not_found', plain, /^404 Not Found\n/],
    ['/nowhere', {}, 404, 'destination_not_found', json, /^\{/],
    ['/nowhere', { ...handshake, accept: 'text/plain' }, 404, 'destination_not_found', plain, /^404 Not Found\n/],
    [
      '/paged/dead',
      { ...handshake, accept: browser },
      502,
      'connection_refused',
      'text/html; charset=utf-8',
      /^<!doctype/,
    ],
    ['/live', { accept: 'text/plain', via: '1.1 edge' }, 508, 'proxy_loop_detected', plain, /^508 Loop Detected\n/],
    ['/live', { accept: 'text/plain', host: 'a,b' }, 400, 'http_request_error', plain, /^400 Bad Request\n/],
    ['/live/new', { 'cache-control': 'only-if-cached' }, 504, 'proxy_internal_response', json, /^\{/],
    ['/paged/dead', { accept: browser }, 502, 'connection_refused', 'text/html; charset=utf-8', /^<!doctype html>/],
    ['/paged/dead', {}, 502, 'connection_refused', 'text/html; charset=utf-8', /^<!doctype html>/],
    ['/paged/dead', { accept: 'application/json' }, 502, 'connection_refused', json, /^\{"title"/],
    ['/paged/dead', { accept: 'text/plain' }, 502, 'connection_refused', plain, /^502 Bad Gateway\n/],
    [
      '/paged/new',
      { 'cache-control': 'only-if-cached' },
      504,
      'proxy_internal_response',
      'application/json',
      /^\{"away":true\}$/,
    ],
  ])('GET %s, %j: %i, %s, %s', async (path, headers, status, type, contentType, body) => {
    const got = await ask(path, headers);
    expect(got.status).toBe(status);
    expect(got.fields).toMatchObject({
      'content-type': contentType,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'proxy-status': `rangeway; error=${type}`,
      'content-length': String(Buffer.byteLength(got.body)),
    });
    expect(got.fields.vary?.split(/, */)).toContain('Accept');
    expect(got.body).toMatch(body);
    const all = JSON.stringify([got.fields, got.body]);
    for (const inside of [deadPort, originPort, dir, 'ECONN', 'node', 'rangeway/'])
      expect(all).not.toContain(String(inside));
  });

  it.each(['/dead', '/paged/dead', '/nowhere'])('HEAD %s has the fields of GET', async (path) => {
    for (const accept of ['*/*', 'text/plain', browser]) {
      const { date: _getDate, ...fields } = (await ask(path, { accept })).fields;
      const head = await ask(path, { accept }, 'HEAD');
      const { date: _headDate, ...headFields } = head.fields;
      expect(headFields).toEqual(fields);
      expect(head.body).toBe('');
    }
  });

  it('keeps its own fields with an error page: Content-Range of a 416', async () => {
    expect((await ask('/paged/file')).body).toBe('the origin');
    const { status, fields, body } = await ask('/paged/file', { range: 'bytes=99-' });
    expect(status).toBe(416);
    expect(fields).toMatchObject({ 'content-range': 'bytes */10', 'content-type': plain });
    expect(body).toBe('no such range');
  });
});

describe("the origin's own error", () => {
  it.each(['/paged/own', '/live/own'])('%s is relayed unchanged, whatever Accept says', async (path) => {
    for (const accept of ['text/html', 'application/json']) {
      const { status, fields, body } = await ask(path, { accept });
      expect({ status, type: fields['content-type'], body }).toEqual({
        status: 502,
        type: 'x/origin',
        body: 'the origin',
      });
      expect(fields['proxy-status']).toBeUndefined();
    }
  });
});

describe('errorPages', () => {
  async function startWith(path: string): Promise<{ code: number | null; output: string }> {
    const config = {
      store: { type: 'memory' },
      listen: '127.0.0.1:0',
      routes: [{ origin: 'http://a', errorPages: { '502': path } }],
    };
    const file = join(dir, 'failing.json');
    await writeFile(file, JSON.stringify(config));
    await using failing = startRangeway(['--config', file]);
    return { code: await failing.ended(), output: failing.output() };
  }

  it.each([
    ['./missing.html', 1, /missing\.html: ENOENT/],
    ['./directory.html', 1, /directory\.html\b.*EISDIR/],
    ['./large.html', 1, /large\.html is larger than 1 MiB: 1048577 bytes/],
    ['./page.php', 2, /routes\[0\]\.errorPages\.502.*\.html/],
    ['', 2, /routes\[0\]\.errorPages\.502/],
  ])('%j: the start fails with %i and one line', async (path, code, line) => {
    await mkdir(join(dir, 'directory.html'), { recursive: true });
    await writeFile(join(dir, 'large.html'), 'x'.repeat(1024 * 1024 + 1));
    const { code: got, output } = await startWith(path);
    expect(output).toMatch(line);
    expect(output).not.toMatch(/\n\s+at /);
    expect(got).toBe(code);
  });

  it('may be as large as 1 MiB', async () => {
    await writeFile(join(dir, 'just.html'), 'x'.repeat(1024 * 1024));
    const config = {
      store: { type: 'memory' },
      listen: '127.0.0.1:0',
      routes: [{ origin: `http://127.0.0.1:${deadPort}`, errorPages: { '5xx': './just.html' } }],
    };
    await writeFile(join(dir, 'just.json'), JSON.stringify(config));
    await using started = startRangeway(['--config', join(dir, 'just.json')]);
    const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
    const response = await fetch(`${url}/x`);
    expect(response.status).toBe(502);
    expect((await response.arrayBuffer()).byteLength).toBe(1024 * 1024);
  });
});
