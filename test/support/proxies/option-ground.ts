/** A server process with many routes to one origin whose responses a test sets, for tests of cache options. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startRangeway } from '../processes/rangeway-process.ts';

/** The fields of a response, and its `status` if it is not 200. */
export type Reply = Readonly<Record<string, string | number>>;

/** A query with its `?`, or the fields of a request. */
export type Ask = string | Readonly<Record<string, string>>;

/** A response as its client got it. */
export interface Got {
  readonly status: number | undefined;
  /** Source of the body. `store`: the same body was served before. `none`: the body is not the origin's. */
  readonly source: 'origin' | 'bypass' | 'store' | 'none';
  readonly fields: IncomingHttpHeaders;
}

/** A request as the origin received it. */
export interface Seen {
  readonly target: string;
  readonly fields: IncomingHttpHeaders;
}

/** The running process, and the origin behind it. */
export interface OptionGround extends AsyncDisposable {
  /** Sets the origin's response for a path, whatever the query, from now on. */
  reply(path: string, reply: Reply): void;
  /** Requests a path, and waits until its entry, if it is stored, can be found. */
  ask(path: string, ask?: Ask): Promise<Got>;
  /** Returns the requests that the origin received for a path, whatever the query. */
  seen(path: string): readonly Seen[];
  /** Closes the origin and its port. */
  endOrigin(): Promise<void>;
  /** Returns the log so far. */
  log(): string;
}

/** Starts the server and its origin. `caches` has the `cache` options of each route: route `a` serves `/a` and paths below it. */
export async function startOptionGround(caches: Readonly<Record<string, object>>): Promise<OptionGround> {
  const replies = new Map<string, Reply>();
  const seen = new Map<string, Seen[]>();
  const origin = createServer((request, response) => answer(request, response, replies, seen));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-option-ground-'));
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: Object.entries(caches).map(([name, cache]) => ({ match: { pathPrefix: `/${name}` }, origin: url, cache })),
  };
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
  const rangeway = startRangeway(['--config', join(dir, 'rangeway.json')]);
  const [, base = ''] = await rangeway.waitFor(/ready on (http:[^\s",]+),/);

  const stored = new Map<string, number>();
  const known = new Set<string>();
  const endOrigin = async () => {
    origin.closeAllConnections();
    if (origin.listening) await once(origin.close(), 'close');
  };
  return {
    reply: (path, reply) => void replies.set(path, reply),
    async ask(path, ask = '') {
      const [target, headers] = typeof ask === 'string' ? [path + ask, {}] : [path, ask];
      // With node:http, as `fetch` adds fields of its own.
      const [response] = await once(get(base + target, { headers, agent: false }), 'response');
      const { statusCode: status, headers: fields }: IncomingMessage = response;
      const body = await text(response);
      const cacheStatus = fields['cache-status']?.toString() ?? '';
      if (/; stored/.test(cacheStatus)) {
        stored.set(path, (stored.get(path) ?? 0) + 1);
        const line = `"event":"fill"[^\\n]*${path}(?:\\?[^"]*)?","generation"`;
        await rangeway.waitFor(new RegExp(`(?:${line}[^]*?){${stored.get(path)}}`));
      }
      const source = sourceOf(body, cacheStatus, known);
      known.add(body);
      return { status, source, fields };
    },
    seen: (path) => seen.get(path) ?? [],
    endOrigin,
    log: rangeway.output,
    async [Symbol.asyncDispose]() {
      await rangeway.stop('SIGTERM');
      await endOrigin();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Answers at the origin. Every body is different. */
function answer(
  request: IncomingMessage,
  response: ServerResponse,
  replies: ReadonlyMap<string, Reply>,
  seen: Map<string, Seen[]>,
): void {
  const target = request.url ?? '';
  const [path = ''] = target.split('?', 1);
  const before = seen.get(path) ?? [];
  seen.set(path, [...before, { target, fields: request.headers }]);
  const { status = 200, ...fields } = replies.get(path) ?? {};
  const body = `the origin on ${path}, ${before.length + 1}`;
  response.writeHead(Number(status), { ...fields, 'content-length': body.length }).end(body);
}

function sourceOf(body: string, cacheStatus: string, known: ReadonlySet<string>): Got['source'] {
  if (!body.startsWith('the origin')) return 'none';
  if (known.has(body)) return 'store';
  return cacheStatus.includes('fwd=bypass') ? 'bypass' : 'origin';
}
