/** Rangeway as a process with many routes to one origin that says what it is told to say: what their options do. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startRangeway } from '../processes/rangeway-process.ts';

/** The fields of a response, and its status if it is not 200. */
export type Reply = Readonly<Record<string, string | number>>;

/** What a request has besides its path: a query, or fields. */
export type Ask = string | Readonly<Record<string, string>>;

/** What a client got. */
export interface Got {
  readonly status: number | undefined;
  /** Where the body comes from: the store, if it has come before. `none` where it is not the origin's. */
  readonly source: 'origin' | 'bypass' | 'store' | 'none';
  readonly fields: IncomingHttpHeaders;
}

/** A request as the origin saw it. */
export interface Seen {
  readonly target: string;
  readonly fields: IncomingHttpHeaders;
}

/** The running process, and the origin behind it. */
export interface OptionGround extends AsyncDisposable {
  /** What the origin says from now on, whatever it is asked for below a path. */
  reply(path: string, reply: Reply): void;
  /** Asks for a path, and waits until what is stored of the response can be found. */
  ask(path: string, ask?: Ask): Promise<Got>;
  /** What the origin was asked for a path, whatever the query. */
  seen(path: string): readonly Seen[];
  /** Ends the origin: nobody listens at its address any more. */
  endOrigin(): Promise<void>;
  /** The log so far. */
  log(): string;
}

/** Starts both. `caches` are the options of `cache` by route: that of `a` serves `/a` and all below it. */
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
      // By node:http, for `fetch` adds fields of its own.
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

/** No two of its bodies are the same. */
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
