/** `rangeway probe` against origins of many kinds: its findings, and the few requests that it sends. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { run } from '../../../src/cli/main.ts';
import type { Finding } from '../../../src/cli/probe/findings.ts';
import { openScriptedOrigin } from '../../support/origins/scripted-origin.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';
import { testCertificate } from '../../support/values/tls-certificate.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

interface TestOrigin {
  readonly url: string;
  readonly asked: IncomingMessage[];
}

async function openOrigin(answer: RequestListener): Promise<TestOrigin> {
  const asked: IncomingMessage[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(request);
    answer(request, response);
  });
  closers.push(() => server.close().closeAllConnections());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

async function probed(...argv: readonly string[]) {
  const io = createFakeCliIo();
  const code = await run(['probe', ...argv], io);
  return { code, ...io.written };
}

/** Returns everything that a terminal gets. */
async function shownOf(...argv: readonly string[]): Promise<string> {
  const io = createFakeCliIo();
  const stderr = { ...io.stderr, isTTY: true, columns: 200 };
  await run(['probe', ...argv], { ...io, stderr, env: {} });
  return io.written.stderr;
}

/** Returns the findings by topic. A `!` before a finding marks a lack. */
async function findingsOf(answer: RequestListener): Promise<Record<string, string>> {
  const { url } = await openOrigin(answer);
  const { stdout, stderr } = await probed(`${url}/film.mp4`, '--json');
  expect(stderr).toBe('');
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  return Object.fromEntries(findings.map(({ topic, found, isLack }) => [topic, (isLack ? '!' : '') + found]));
}

const film = Buffer.alloc(5000, 'x');

/** Answers as a correct origin does: ranges, If-Range, If-None-Match, and these fields. */
function sendFilm(request: IncomingMessage, response: ServerResponse, fields: Record<string, string> = {}): void {
  const { range, 'if-range': ifRange, 'if-none-match': ifNoneMatch } = request.headers;
  for (const [name, value] of Object.entries({ 'content-type': 'video/mp4', ...fields }))
    response.setHeader(name, value);
  if (ifNoneMatch !== undefined && ifNoneMatch === fields['etag']) return void response.writeHead(304).end();
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if (range === undefined || (ifRange !== undefined && ifRange !== fields['etag']))
    return void response.setHeader('content-length', film.length).end(film);
  const start = first === '' ? film.length - Number(last) : Number(first);
  const end = first === '' || last === '' ? film.length : Number(last) + 1;
  response.setHeader('content-range', `bytes ${start}-${end - 1}/${film.length}`);
  response.setHeader('content-length', Math.min(end, film.length) - start);
  response.writeHead(206).end(film.subarray(start, end));
}

const good = { etag: '"v1"', 'cache-control': 'max-age=600' };
const nothingLacks = {
  answer: 'ok',
  length: 'known',
  ranges: 'yes',
  suffix: 'yes',
  'if-range': 'yes',
  validator: 'strong',
  validation: 'yes',
  freshness: 'max-age',
  vary: 'none',
  sharing: 'all',
  digest: 'none',
  tls: 'none',
};

describe('a part to a request without Range', () => {
  it.each<[string, number, Record<string, string>]>([
    ['part', 206, { 'content-range': 'bytes 0-9/5000' }],
    ['part', 206, { 'content-range': '0-9/319' }],
    ['part', 200, { 'content-range': 'bytes 0-9/5000' }],
    ['whole-as-part', 206, { 'content-range': 'bytes 0-9/10' }],
  ])('is named %s: status %i, %j', async (found, status, fields) => {
    const answer: RequestListener = (_, response) =>
      void response.writeHead(status, { ...fields, 'content-length': '10' }).end('0123456789');
    expect((await findingsOf(answer))['answer']).toBe(`!${found}`);
  });
});

describe('the progress of a probe', () => {
  it('is a bar of its requests, with the time that is left, and is gone at the end', async () => {
    const { url } = await openOrigin((request, response) => sendFilm(request, response, good));
    const shown = await shownOf(`${url}/film.mp4`);
    expect(shown).toContain(`${'░'.repeat(16)}  0 of at most 8  asking: GET /film.mp4`);
    expect(shown).toContain('▓▓░░░░░░░░░░░░░░  1 of at most 8, 0 s left  asking: HEAD /film.mp4');
    expect(shown).toContain('6 of at most 8, 0 s left  asking: GET /film.mp4  range: bytes=0-0  if-range: ');
    expect(shown.endsWith('\r\u001b[2K')).toBe(true);
  });
});

describe('the findings of a probe', () => {
  it.each<[what: string, answer: RequestListener, other: Record<string, string | undefined>]>([
    ['a good origin', (request, response) => sendFilm(request, response, good), {}],
    [
      'a legacy origin',
      (_, response) => response.end(film),
      {
        head: '!no-length',
        ranges: '!none',
        suffix: undefined,
        'if-range': undefined,
        validator: '!none',
        validation: undefined,
        freshness: '!none',
        sharing: 'equals',
      },
    ],
    [
      'an origin that refuses Range',
      (request, response) =>
        request.headers.range === undefined ? sendFilm(request, response, good) : response.writeHead(501).end(),
      { ranges: '!refused', suffix: undefined, 'if-range': undefined },
    ],
    [
      'an origin whose validators belong to the part',
      (request, response) => sendFilm(request, response, { ...good, etag: `"${request.headers.range ?? 'whole'}"` }),
      { validator: '!changing' },
    ],
    [
      'an origin that answers 416 to any Range',
      (request, response) =>
        request.headers.range === undefined ? sendFilm(request, response, good) : response.writeHead(416).end(),
      { ranges: '!failing', suffix: undefined, 'if-range': undefined },
    ],
    [
      'an origin whose HEAD states another length',
      (request, response) =>
        request.method === 'HEAD'
          ? response.writeHead(200, { ...good, 'content-length': '0' }).end()
          : sendFilm(request, response, good),
      { head: '!other-length' },
    ],
    [
      'a service that sends digests of its own',
      (request, response) => sendFilm(request, response, { ...good, 'x-amz-checksum-crc32': 'AAAAAA==' }),
      { digest: 'of-service' },
    ],
    [
      'an origin that closes the connection at Range',
      (request, response) =>
        request.headers.range === undefined ? sendFilm(request, response, good) : response.destroy(),
      { ranges: '!failing', suffix: undefined, 'if-range': undefined },
    ],
    [
      'an origin that sends other bytes than those requested',
      (request, response) => {
        if (request.headers.range === undefined) return sendFilm(request, response, good);
        response.setHeader('content-range', `bytes 0-${film.length - 1}/${film.length}`);
        response.writeHead(206, good).end(film);
      },
      { ranges: '!wrong', suffix: '!no', 'if-range': '!ignored' },
    ],
    [
      'an origin that sends a part as a 200 with its Content-Range',
      (request, response) => {
        if (request.headers.range === undefined) return sendFilm(request, response, good);
        response
          .writeHead(200, { ...good, 'content-range': `bytes 0-0/${film.length}`, 'content-length': '1' })
          .end('x');
      },
      { ranges: '!part-as-whole', suffix: undefined, 'if-range': undefined },
    ],
    [
      'an origin that sends a part as a 200 of its length',
      (request, response) => {
        if (request.headers.range === undefined) return sendFilm(request, response, good);
        response.writeHead(200, { ...good, 'content-length': '1' }).end('x');
      },
      { ranges: '!part-as-whole', suffix: undefined, 'if-range': undefined },
    ],
    [
      'an origin that compresses each part',
      (request, response) => {
        if (!/gzip/.test(String(request.headers['accept-encoding']))) return sendFilm(request, response, good);
        const end = request.headers.range === undefined ? film.length : 4096;
        if (request.headers.range !== undefined)
          response.setHeader('content-range', `bytes 0-${end - 1}/${film.length}`);
        response.writeHead(request.headers.range === undefined ? 200 : 206, {
          ...good,
          vary: 'accept-encoding',
          'content-encoding': 'gzip',
        });
        response.end(gzipSync(film.subarray(0, end)));
      },
      { ranges: '!compressed', vary: 'some' },
    ],
    [
      'an origin without suffix ranges',
      (request, response) => {
        if (request.headers.range?.startsWith('bytes=-')) response.writeHead(416).end();
        else sendFilm(request, response, good);
      },
      { suffix: '!no' },
    ],
    [
      'an origin that ignores If-Range and If-None-Match',
      (request, response) => {
        delete request.headers['if-range'];
        delete request.headers['if-none-match'];
        sendFilm(request, response, good);
      },
      { 'if-range': '!ignored', validation: '!ignored' },
    ],
    [
      'an origin that answers conditions with 400',
      (request, response) =>
        request.headers['if-none-match'] === undefined && request.headers['if-range'] === undefined
          ? sendFilm(request, response, good)
          : response.writeHead(400).end(),
      { 'if-range': '!failing', validation: '!failing' },
    ],
    [
      'an empty file',
      (request, response) => {
        if (request.headers.range === undefined)
          return void response.writeHead(200, { ...good, 'content-length': '0' }).end();
        response.writeHead(416, { 'content-range': 'bytes */0' }).end();
      },
      { ranges: 'empty', suffix: undefined, 'if-range': undefined, validation: '!ignored' },
    ],
    [
      'a weak tag',
      (request, response) => sendFilm(request, response, { ...good, etag: 'W/"v1"' }),
      { validator: '!weak' },
    ],
    [
      'an invalid tag',
      (request, response) => sendFilm(request, response, { ...good, etag: 'v1' }),
      { validator: '!none', validation: undefined },
    ],
    [
      'no length',
      (_, response) => {
        response.writeHead(200, good).write('x');
        response.end('y');
      },
      {
        length: '!unknown',
        head: '!no-length',
        ranges: '!none',
        suffix: undefined,
        'if-range': undefined,
        validation: '!ignored',
      },
    ],
    [
      'no HEAD',
      (request, response) =>
        request.method === 'HEAD' ? response.writeHead(405).end() : sendFilm(request, response, good),
      { answer: '!no-head' },
    ],
    [
      'a lifetime of 0',
      (request, response) => sendFilm(request, response, { ...good, 'cache-control': 'max-age=0' }),
      { freshness: '!stale', sharing: 'equals' },
    ],
    [
      'a response that is stale on arrival',
      (request, response) => sendFilm(request, response, { ...good, age: '700' }),
      { freshness: '!stale' },
    ],
    [
      'a heuristic lifetime',
      (request, response) =>
        sendFilm(request, response, { etag: '"v1"', 'last-modified': 'Thu, 01 Jan 2015 00:00:00 GMT' }),
      { freshness: '!heuristic', sharing: 'equals' },
    ],
    [
      'no-store',
      (request, response) => sendFilm(request, response, { ...good, 'cache-control': 'no-store' }),
      { freshness: undefined, storing: '!no-store', sharing: undefined },
    ],
    [
      'a cookie with a lifetime',
      (request, response) => sendFilm(request, response, { ...good, 'set-cookie': 'a=b' }),
      { freshness: undefined, storing: '!set-cookie', cookies: '!relayed', sharing: undefined },
    ],
    [
      'a cookie without a lifetime',
      (request, response) => sendFilm(request, response, { etag: '"v1"', 'set-cookie': 'a=b' }),
      { freshness: undefined, storing: '!set-cookie', cookies: '!relayed', sharing: undefined },
    ],
    [
      'a cookie on a private response',
      (request, response) => sendFilm(request, response, { ...good, 'cache-control': 'private', 'set-cookie': 'a=b' }),
      { freshness: undefined, storing: '!private', cookies: 'relayed', sharing: undefined },
    ],
    [
      'Vary',
      (request, response) => sendFilm(request, response, { ...good, vary: 'Accept-Language' }),
      { vary: 'some' },
    ],
    [
      'Vary by user agent',
      (request, response) => sendFilm(request, response, { ...good, vary: 'User-Agent' }),
      { vary: '!many' },
    ],
    [
      'Vary by all',
      (request, response) => sendFilm(request, response, { ...good, vary: '*' }),
      { freshness: undefined, storing: '!vary-star', vary: '!any', sharing: undefined },
    ],
    [
      'gzip without Vary',
      (request, response) => {
        const isEncoded = request.headers['accept-encoding'] !== undefined;
        sendFilm(request, response, { ...good, ...(isEncoded ? { 'content-encoding': 'gzip' } : {}) });
      },
      { vary: '!unsaid' },
    ],
    [
      'gzip with Vary',
      (request, response) => {
        const isEncoded = request.headers['accept-encoding'] !== undefined;
        const encoded = { 'content-encoding': 'gzip', vary: 'Accept-Encoding' };
        sendFilm(request, response, { ...good, ...(isEncoded ? encoded : {}) });
      },
      { vary: 'some' },
    ],
    [
      'a digest',
      (request, response) =>
        sendFilm(request, response, { ...good, 'repr-digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` }),
      { digest: 'yes' },
    ],
  ])('%s', async (_what, answer, other) => {
    const want = Object.entries({ ...nothingLacks, ...other }).filter(([, found]) => found !== undefined);
    expect(await findingsOf(answer)).toEqual(Object.fromEntries(want));
  });

  it.each([
    ['a camera', { 'content-type': 'multipart/x-mixed-replace; boundary=frame' }],
    [
      'a station with an invented length',
      { 'content-type': 'audio/mpeg', 'icy-br': '128', 'content-length': '2147483647' },
    ],
  ])('a live stream: %s', async (_what, fields) => {
    const found = await findingsOf((request, response) => {
      response.writeHead(200, fields);
      if (request.method === 'HEAD') response.end();
      else response.write('x');
    });
    expect(found).toMatchObject({ length: 'stream', storing: '!stream' });
    expect(found['head']).toBeUndefined();
  });

  it.each([400, 403, 416])('an origin that gives parts only, and %i for the whole', async (status) => {
    const found = await findingsOf((request, response) => {
      if (request.headers.range !== undefined) sendFilm(request, response, good);
      else response.writeHead(status).end();
    });
    expect(found).toMatchObject({ answer: '!error', ranges: '!parts-only' });
  });

  it('a response that is delimited by the end of the connection', async () => {
    const found = await findingsOf((request) => {
      request.socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc');
    });
    expect(found['length']).toBe('!unsure');
  });

  it('a response that ends with TLS closed without close_notify', async () => {
    await using origin = await openScriptedOrigin(
      async ({ send, endBare }) => {
        await send('HTTP/1.0 200 OK\r\n\r\nabc');
        endBare();
      },
      { tls: testCertificate },
    );
    const { stdout } = await probed(`${origin.url}/`, '--insecure', '--json');
    const { findings } = JSON.parse(stdout) as { findings: { topic: string; found: string }[] };
    expect(findings).toContainEqual(expect.objectContaining({ topic: 'length', found: 'truncated' }));
  });
});

describe('the output of a probe', () => {
  it('is text with the findings, their consequences and the options that matter', async () => {
    const { url } = await openOrigin((_, response) => response.end(film));
    const { code, stdout, stderr } = await probed(`${url}/film.mp4?a=b`);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      /^GET \/film\.mp4\?a=b of http:\/\/127\.0\.0\.1:\d+\n\nanswer {7}200\nlength {7}5000 bytes \(5 KB\)\n/,
    );
    expect(stdout).toContain(
      '\nranges       none: asked for one byte it sends the whole (200)\n             Rangeway fetches',
    );
    expect(stdout).toContain('(cache.ownEntityTags)');
    expect(stdout).toMatch(/\n\nin short {5}missing: HEAD, ranges, validator, freshness\n$/);
  });

  it('says that nothing is missing', async () => {
    const { url } = await openOrigin((request, response) => sendFilm(request, response, good));
    const { stdout } = await probed(url, '/film.mp4');
    expect(stdout).toMatch(/in short {5}nothing is missing\n$/);
  });

  it('has no control characters of the origin', async () => {
    const { url } = await openOrigin((_, response) => response.setHeader('content-type', 'a\u009bb').end(film));
    expect((await probed(url)).stdout).toContain('200, a\ufffdb');
  });

  it.each<[what: string, status: number, fields: Record<string, string>, want: RegExp]>([
    ['an error', 404, {}, /^answer {7}404: give the path of something that is there$/m],
    [
      'a redirect',
      302,
      { location: 'https://a.example/x' },
      /^answer {7}302, to https:\/\/a\.example\/x: probe that instead$/m,
    ],
  ])('%s ends with 1', async (_what, status, fields, want) => {
    const { url, asked } = await openOrigin((_, response) => response.writeHead(status, fields).end('no'));
    const { code, stdout } = await probed(url);
    expect(code).toBe(1);
    expect(stdout).toMatch(want);
    expect(asked).toHaveLength(1);
  });

  it.each(['NTLM', 'Negotiate'])('names an origin that authenticates connections by %s', async (scheme) => {
    const { url } = await openOrigin((_, response) =>
      response.writeHead(401, { 'www-authenticate': [scheme, 'Basic realm="a"'] }).end(),
    );
    const { stdout } = await probed(url);
    expect(stdout).toMatch(/^login {8}the origin authenticates connections \(NTLM, Negotiate\)$/m);
  });

  it.each<[want: string, code: number, ...argv: string[]]>([
    ['http://127.0.0.1:1/ cannot be asked: ECONNREFUSED', 1, 'http://127.0.0.1:1/a'],
    ['<origin-url>: expected the URL of an origin; did you mean "http://localhost:3000"?', 2, 'localhost:3000'],
    ['<origin-url>: must not hold a user name or password', 2, 'http://a:b@127.0.0.1:1/x'],
    ['<origin-url>: must not hold a query', 2, 'http://127.0.0.1:1/x?y', '/z'],
    ['[path]: expected a path that begins with "/"', 2, 'http://127.0.0.1:1', 'film.mp4'],
    ["missing required argument 'origin-url'", 2],
  ])('%s', async (want, code, ...argv) => {
    const outcome = await probed(...argv);
    expect({ code: outcome.code, stdout: outcome.stdout }).toEqual({ code, stdout: '' });
    expect(outcome.stderr).toContain(want);
  });
});

describe('lines with wrong ends', () => {
  const [status, length] = ['HTTP/1.1 200 OK', 'Content-Length: 4'];
  it.each<[name: string, bytes: string, want: RegExp]>([
    [
      'one line that ends with LF',
      `${status}\r\nX-A: 1\n${length}\r\n\r\ngood`,
      /cannot be asked: the response header ends lines with a bare LF \(RFC 9112 §2\.2\)/,
    ],
  ])('are reported: %s', async (_name, bytes, want) => {
    await using origin = await openScriptedOrigin(bytes);
    const { code, stdout, stderr } = await probed(origin.url);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(want);
  });

  it.each<[name: string, lines: readonly string[], want: RegExp]>([
    ['folded', ['X-A: 1', ' 2', length], /^header {7}the response header has faults: folded lines$/m],
    ['lengths', [length, length], /^header {7}the response header has faults: several lengths$/m],
  ])('and other faults with one meaning are named, and the response is taken: %s', async (_name, lines, want) => {
    await using origin = await openScriptedOrigin(({ request, send }) =>
      send([status, ...lines, 'Cache-Control: max-age=60', '', request.method === 'HEAD' ? '' : 'good'].join('\r\n')),
    );
    const { stdout } = await probed(origin.url);
    expect(stdout).toMatch(want);
    expect(stdout).toMatch(/^length {7}4 bytes$/m);
  });

  it('are accepted where all of them end with LF', async () => {
    await using origin = await openScriptedOrigin(({ request, send }) =>
      send(`${status}\n${length}\nCache-Control: max-age=60\n\n${request.method === 'HEAD' ? '' : 'good'}`),
    );
    const { code, stdout } = await probed(origin.url);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^length {7}4 bytes$/m);
  });
});

describe('the requests of a probe', () => {
  it('are few, and only heads are read', async () => {
    let sentBytes = 0;
    const { url, asked } = await openOrigin((request, response) => {
      const { range } = request.headers;
      if (range !== undefined || request.headers['if-none-match'] !== undefined)
        return sendFilm(request, response, good);
      // The body has no end, so a probe that reads it never finishes.
      response.writeHead(200, { ...good, 'content-length': '1000000000000' });
      if (request.method === 'HEAD') return response.end();
      response.flushHeaders();
      request.socket.once('close', () => {
        sentBytes = request.socket.bytesWritten;
      });
    });
    const { code } = await probed(`${url}/film.mp4`);
    expect(code).toBe(0);
    const requests = asked.map(({ method, url: target, headers }) => [
      method,
      target,
      ...Object.entries(headers)
        .filter(([name]) => /^(range|if-|accept-encoding)/.test(name))
        .map(([name, value]) => `${name}: ${value}`),
    ]);
    expect(requests).toEqual([
      ['GET', '/film.mp4'],
      ['HEAD', '/film.mp4'],
      ['GET', '/film.mp4', 'accept-encoding: gzip, br'],
      ['GET', '/film.mp4', 'if-none-match: "v1"'],
      ['GET', '/film.mp4', 'range: bytes=0-0'],
      ['GET', '/film.mp4', 'range: bytes=-1'],
      ['GET', '/film.mp4', 'range: bytes=0-0', 'if-range: "rangeway-probe"'],
    ]);
    expect(sentBytes).toBeLessThan(2000);
  });

  it('have their own User-Agent and the fields of -H, and go below the path of the origin', async () => {
    const { url, asked } = await openOrigin((_, response) => response.end(film));
    await probed(`${url}/base/`, '/film.mp4', '-H', 'Host: films.example', '-H', 'Authorization: Bearer x');
    const [first] = asked;
    expect(first?.url).toBe('/base/film.mp4');
    expect(first?.headers).toMatchObject({
      host: 'films.example',
      authorization: 'Bearer x',
      'user-agent': 'rangeway-probe',
    });
  });

  it.each<[argv: readonly string[], want: string]>([
    [[], '/'],
    [['/film.mp4?a'], '/film.mp4?a'],
  ])('go over a Unix socket: %j', async (argv, want) => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-probe-'));
    const asked: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url);
      response.end(film);
    }).listen(join(dir, 'app.sock'));
    await once(server, 'listening');
    closers.push(() => server.close().closeAllConnections());
    expect((await probed(`unix:${join(dir, 'app.sock')}`, ...argv)).code).toBe(0);
    expect(new Set(asked)).toEqual(new Set([want]));
    await rm(dir, { recursive: true });
  });

  it('go over TLS and HTTP/2, with the certificate verified or not', async () => {
    const server = createSecureServer({ ...testCertificate, allowHTTP1: true }, (request, response) => {
      response.setHeader('x-version', request.httpVersion);
      response.end('abc');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => server.close());
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const refused = await probed(url);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/"origin\.caFile".*; --insecure probes it all the same/);
    const { code, stdout } = await probed(url, '--insecure');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^TLS {10}yes; its certificate was not verified \(--insecure\)$/m);
    expect(stdout).toMatch(/^HTTP\/2 {7}yes: it takes many requests over one connection \(origin\.protocol\)$/m);
  });
});
