/** docs/recipes/from-nginx.md, as it is written; then both programs side by side, and the directives of its tables. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect } from 'vitest';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { nginxTexts } from '../support/recipes/nginx-texts.ts';
import { readOptionTables } from '../support/recipes/option-tables.ts';
import { Recipe, recipesDirectory } from '../support/recipes/recipe.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const film = patternBytes(0, 10_000_000);
const modified = 'Thu, 01 Jan 2026 00:00:00 GMT';

/** The server of the reader: it knows no ranges. Keeps the paths that it was asked for, with the cookies. */
class Origin implements AsyncDisposable {
  readonly requests: string[] = [];
  isFailing = false;
  readonly #server = createServer(({ url = '', headers }, response) => {
    const path = url.split('?', 1)[0] ?? '';
    this.requests.push(`${path} ${headers.cookie ?? ''}`.trim());
    const common = { 'X-Powered-By': 'Legacy', 'Last-Modified': modified };
    const send = (status: number, body: Uint8Array, fields: object = {}) => {
      response.writeHead(status, { ...common, 'Content-Length': body.length, ...fields }).end(body);
    };
    if (this.isFailing) return void send(503, Buffer.from('later'));
    if (headers['if-none-match'] === '"v1"') return void response.writeHead(304, { ...common, ETag: '"v1"' }).end();
    switch (path) {
      case '/film.mp4':
        return void send(200, film, { 'Content-Type': 'video/mp4', ETag: '"v1"', 'Cache-Control': 'max-age=600' });
      case '/page':
        return void send(200, Buffer.from('a page'), { 'Content-Type': 'text/html', ETag: '"v1"' });
      case '/news':
        return void send(200, Buffer.from('news'), { 'Cache-Control': 'max-age=1' });
      default:
        return void send(404, Buffer.from('nothing here'));
    }
  });

  async open(port: number): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await once(this.#server.close(), 'close');
  }
}

async function answerOf(port: number, path: string, headers: Record<string, string>, method = 'GET') {
  // Not by `fetch`, which adds `Cache-Control: no-cache` to conditional requests.
  const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const body = await buffer(response);
  const status = response.statusCode ?? 0;
  const named = ['content-type', 'content-length', 'content-range', 'etag', 'last-modified', 'x-powered-by'];
  // An error of the program itself has its own words. A 304 with an ETag needs no Last-Modified (RFC 9110 §15.4.5).
  const compared: Readonly<Record<number, readonly string[]>> = { 304: ['etag'], 416: ['content-range'] };
  const fields = compared[status] ?? named;
  return {
    status,
    fields: Object.fromEntries(fields.map((name) => [name, response.headers[name]])),
    body: status === 416 ? '' : createHash('sha256').update(body).digest('hex'),
  };
}

/** Questions after which both programs must have given the same answers, and asked the server the same. */
const questions: readonly (readonly [path: string, headers?: Record<string, string>, method?: string])[] = [
  ['/film.mp4'],
  ['/film.mp4', { range: 'bytes=0-99' }],
  ['/film.mp4', { range: 'bytes=5000000-' }],
  ['/film.mp4', { range: 'bytes=-100' }],
  ['/film.mp4', { range: 'bytes=10000000-' }],
  ['/film.mp4', { range: 'bytes=0-99', 'if-range': '"v1"' }],
  ['/film.mp4', { range: 'bytes=0-99', 'if-range': '"v0"' }],
  ['/film.mp4', { 'if-none-match': '"v1"' }],
  ['/film.mp4', { 'if-none-match': '"v0"' }],
  ['/film.mp4', { 'if-modified-since': modified }],
  ['/film.mp4', {}, 'HEAD'],
  ['/film.mp4?from=mail'],
  ['/page'],
  ['/page?other=1'],
  ['/page', { range: 'bytes=2-5' }],
  ['/none'],
  ['/none', { range: 'bytes=0-1' }],
  ['/page', { cookie: 'session=1' }],
  ['/page', { cookie: 'session=1' }],
  ['/page', { cookie: 'other=1' }],
];

itWith(['curl', 'nginx'], 'docs/recipes/from-nginx.md', async () => {
  await using origin = new Origin();
  await using recipe = await Recipe.open('from-nginx.md', {
    ports: [8080, 8081, 3000],
    texts: nginxTexts,
    servers: { 'nginx -p': /start worker process/ },
  });
  await origin.open(recipe.port(3000));
  await recipe.follow();
  expect(recipe.left).toEqual([]);
  const programs = { nginx: recipe.port(8081), rangeway: recipe.port(8080) };

  for (const [path, headers = {}, method] of questions) {
    const theirs = await answerOf(programs.nginx, path, headers, method);
    const ours = await answerOf(programs.rangeway, path, headers, method);
    expect({ path, headers, ...ours }).toEqual({ path, headers, ...theirs });
  }
  // Each program asked for each file once, and for each request with a session.
  const asked = Object.groupBy(origin.requests, (each) => each);
  expect(Object.fromEntries(Object.entries(asked).map(([each, all]) => [each, all?.length]))).toEqual({
    '/film.mp4': 2,
    '/page': 2,
    '/none': 2,
    '/page session=1': 4,
  });

  // While the server fails, both serve what they have.
  for (const port of Object.values(programs)) expect((await answerOf(port, '/news', {})).status).toBe(200);
  origin.isFailing = true;
  const stale = async (port: number): Promise<string> => {
    const { status, headers } = await fetch(`http://127.0.0.1:${port}/news`);
    const said = headers.get('x-cache-status') ?? headers.get('cache-status') ?? '';
    return `${status} ${/STALE|UPDATING|fwd=stale|ttl=-/.test(said) ? 'stale' : said}`;
  };
  for (const port of Object.values(programs)) await expect.poll(() => stale(port)).toBe('200 stale');
});

itWith(['nginx'], 'docs/recipes/from-nginx.md names directives that nginx knows', async () => {
  const [page, program] = await Promise.all([
    readFile(join(recipesDirectory, 'from-nginx.md'), 'utf8'),
    readFile(findProgram('nginx') ?? '', 'latin1'),
  ]);
  const names = readOptionTables(page).flatMap(({ theirs }) =>
    theirs.map((text) => /^[$\w-]+=?/.exec(text)?.[0] ?? text),
  );
  expect(names.length).toBeGreaterThan(60);
  // Those of the commercial version.
  const absent = names.filter((name) => !program.includes(name.replace(/^\$/, '')));
  expect(new Set(absent)).toEqual(new Set(['health_check', 'proxy_cache_purge']));
});
