/** Compares Rangeway with the cache that a page moves over from: both in front of one server, with the same questions. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { expect } from 'vitest';
import { patternBytes } from '../values/pattern-body.ts';

const film = patternBytes(0, 10_000_000);
const modified = 'Thu, 01 Jan 2026 00:00:00 GMT';

/** The server of the reader. It knows no ranges. Disposing closes it. */
export class LegacyOrigin implements AsyncDisposable {
  /** The requests that it has got: path and cookies. */
  readonly requests: string[] = [];
  /** Whether it answers everything with 503. */
  isFailing = false;
  readonly #server = createServer(({ url = '', headers }, response) => {
    const path = url.split('?', 1)[0] ?? '';
    this.requests.push(`${path} ${headers.cookie ?? ''}`.trim());
    const common = { 'X-Powered-By': 'Legacy', 'Last-Modified': modified };
    const send = (status: number, body: Uint8Array, fields: object = {}): void => {
      response.writeHead(status, { ...common, 'Content-Length': body.length, ...fields }).end(body);
    };
    if (this.isFailing) send(503, Buffer.from('later'));
    else if (headers['if-none-match'] === '"v1"') response.writeHead(304, { ...common, ETag: '"v1"' }).end();
    else if (path === '/film.mp4') {
      send(200, film, { 'Content-Type': 'video/mp4', ETag: '"v1"', 'Cache-Control': 'max-age=600' });
    } else if (path === '/page') send(200, Buffer.from('a page'), { 'Content-Type': 'text/html', ETag: '"v1"' });
    else if (path === '/news') send(200, Buffer.from('news'), { 'Cache-Control': 'max-age=1' });
    else send(404, Buffer.from('nothing here'));
  });

  /** Begins to serve. */
  async open(port: number): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await once(this.#server.close(), 'close');
  }
}

interface Question {
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
}

const questions: readonly Question[] = [
  { path: '/film.mp4' },
  { path: '/film.mp4', headers: { range: 'bytes=0-99' } },
  { path: '/film.mp4', headers: { range: 'bytes=5000000-' } },
  { path: '/film.mp4', headers: { range: 'bytes=-100' } },
  { path: '/film.mp4', headers: { range: 'bytes=10000000-' } },
  { path: '/film.mp4', headers: { range: 'bytes=0-99', 'if-range': '"v1"' } },
  { path: '/film.mp4', headers: { range: 'bytes=0-99', 'if-range': '"v0"' } },
  { path: '/film.mp4', headers: { 'if-none-match': '"v1"' } },
  { path: '/film.mp4', headers: { 'if-none-match': '"v0"' } },
  { path: '/film.mp4', headers: { 'if-modified-since': modified } },
  { path: '/film.mp4', method: 'HEAD' },
  { path: '/film.mp4?from=mail' },
  { path: '/page' },
  { path: '/page?other=1' },
  { path: '/page', headers: { range: 'bytes=2-5' } },
  { path: '/none' },
  { path: '/none?again' },
  { path: '/page', headers: { cookie: 'session=1' } },
  { path: '/page', headers: { cookie: 'session=1' } },
  { path: '/page', headers: { cookie: 'other=1' } },
];

/** What each program has to ask the server for these questions: each file once, and the page for each request with a session. */
const askedByEach = { '/film.mp4': 1, '/page': 1, '/none': 1, '/page session=1': 2 };

/**
 * Puts all questions to both programs. Rejects where an answer differs, or where one of them has asked the server too often or too
 * rarely.
 */
export async function expectSameAnswers(origin: LegacyOrigin, theirPort: number, ourPort: number): Promise<void> {
  for (const question of questions) {
    const [theirs, ours] = [await answerOf(theirPort, question), await answerOf(ourPort, question)];
    expect({ ...question, ...ours }).toEqual({ ...question, ...theirs });
  }
  const asked = new Map<string, number>();
  for (const each of origin.requests) asked.set(each, (asked.get(each) ?? 0) + 1);
  const expected = Object.entries(askedByEach).map(([each, count]) => [each, 2 * count]);
  expect(Object.fromEntries(asked)).toEqual(Object.fromEntries(expected));
}

/** Lets the server fail, and waits until each program has answered with what it has. `isStale` reads a program's own field. */
export async function expectStaleAnswers(
  origin: LegacyOrigin,
  programs: readonly { readonly port: number; readonly isStale: (headers: Headers) => boolean }[],
): Promise<void> {
  for (const { port } of programs) expect((await fetch(`http://127.0.0.1:${port}/news`)).status).toBe(200);
  origin.isFailing = true;
  for (const { port, isStale } of programs) {
    const ask = async (): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${port}/news`);
      return `${isStale(response.headers) ? 'stale' : 'fresh'}, ${response.status}, ${await response.text()}`;
    };
    await expect.poll(ask).toBe('stale, 200, news');
  }
}

const comparedFields = ['content-type', 'content-length', 'content-range', 'etag', 'last-modified', 'x-powered-by'];
/** An error of the program itself has its own words. A 304 with an ETag needs no Last-Modified (RFC 9110 §15.4.5). */
const comparedByStatus: Readonly<Record<number, readonly string[]>> = { 304: ['etag'], 416: ['content-range'] };

async function answerOf(port: number, { path, headers = {}, method = 'GET' }: Question) {
  // Not by `fetch`, which adds `Cache-Control: no-cache` to conditional requests.
  const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const body = await buffer(response);
  const status = response.statusCode ?? 0;
  const fields = comparedByStatus[status] ?? comparedFields;
  return {
    status,
    fields: Object.fromEntries(fields.map((name) => [name, response.headers[name]])),
    body: status === 416 ? '' : createHash('sha256').update(body).digest('hex'),
  };
}
