/** Plays rows over real connections: the HTTP/1 listener, the whole proxy, undici, and an origin that writes raw bytes. */

import { describe, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { createOriginGroup } from '../../src/origin/group/origin-group.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import type { Route } from '../../src/routing/router.ts';
import { originOptions } from '../origin/origin-options.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { until } from '../support/clocks/until.ts';
import { openScriptedOrigin, type ScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { openListener, type TestListener } from '../support/proxies/open-listener.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { type Content, checkExchange, type Seen } from './checks.ts';
import { type Part, playOrigin } from './origin-part.ts';
import type { Exchange, Row } from './rows.ts';

/** Options of a table's proxy that differ from the defaults. */
export interface Setup {
  /** Options of the route's `cache`, as a configuration file has them. */
  readonly cache?: Readonly<Record<string, unknown>>;
  /** How long the origin may take to answer, in real milliseconds. */
  readonly originTimeoutMs?: number;
}

/** Larger than in the listener's own tests. */
const limits = { targetBytes: 8192, fieldsBytes: 32_768 };

/** Declares a test for each row. */
export function table(title: string, rows: readonly Row[], setup: Setup = {}): void {
  describe(title, () => {
    const named = rows.map((row): [string, Row] => [`${row.kind}: ${row.name} (${row.clause})`, row]);
    it.each(named)('%s', async (_name, row) => {
      await using stage = await openStage(setup);
      for (const [index, exchange] of row.exchanges.entries()) await play(stage, exchange, index + 1);
    });
  });
}

interface Stage extends AsyncDisposable {
  readonly proxy: WholeProxy;
  readonly listener: TestListener;
  readonly origin: ScriptedOrigin;
  /** The origin's answers to the next requests, in order. The last one repeats. */
  readonly parts: Part[];
  /** The content that the row expects in the store, by host and target. */
  readonly stored: Map<string, Content>;
}

async function openStage({ cache = {}, originTimeoutMs = 15_000 }: Setup): Promise<Stage> {
  await using resources = new AsyncDisposableStack();
  const parts: Part[] = [];
  const origin = await openScriptedOrigin((exchange) => {
    const part = parts.length > 1 ? parts.shift() : parts[0];
    return playOrigin(exchange, part ?? { body: '' }, proxy.clock.now());
  });
  resources.defer(() => origin.close());
  const undici = createUndiciOrigin(originOptions({ url: origin.url, headersTimeoutMs: originTimeoutMs }));
  resources.defer(() => undici.close());
  const proxy = createWholeProxy({
    origin: createOriginGroup({
      members: [{ url: new URL(origin.url), origin: undici, host: undefined }],
      choice: 'first',
      retries: { attempts: 1, budgetPercent: 20 },
      health: { failures: 3, restMs: 10_000 },
      clock: realClock,
      random: () => 0.5,
      onHealth: () => undefined,
    }),
    originRanges: 'auto',
    route: { cache: cachingOf(cache) },
  });
  resources.defer(() => proxy.close());
  const listener = resources.use(await openListener(proxy.handler, { now: proxy.clock.now, limits }));
  const kept = resources.move();
  return { proxy, listener, origin, parts, stored: new Map(), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function cachingOf(cache: Setup['cache']): Route['cache'] {
  const checked = checkConfig({ routes: [{ origin: 'http://origin.example', cache }] }, '.');
  const [route] = checked.kind === 'ok' ? checked.config.routes : [];
  if (route === undefined) throw new Error(`these options are not valid: ${JSON.stringify(checked)}`);
  return route.cache;
}

async function play(stage: Stage, exchange: Exchange, number: number): Promise<void> {
  const { host = 'example.org', target = '/a', method = 'GET', wait = 0, reply = {}, source } = exchange;
  if (reply.fault === 'refuse') await stage.origin.close();
  stage.proxy.clock.advance(wait * 1000);
  const body = `the body of exchange ${number}`;
  const first: Part = { body, ...reply };
  const firstContent: Content = { status: first.status ?? 200, text: first.body };
  const key = `${host}${target}`;
  const attempt = async (): Promise<void> => {
    const known = source === 'fetched' ? contentOf(first) : stage.stored.get(key);
    stage.parts.splice(
      0,
      Number.POSITIVE_INFINITY,
      first,
      ...(reply.again === undefined ? [] : [{ body, ...reply.again }]),
    );
    const seen = await send(stage, exchange, { host, target, method });
    const isOwn = source === 'made' || source === 'refused';
    checkExchange(`exchange ${number}, ${source}`, exchange, seen, isOwn ? undefined : known);
  };
  if (exchange.soon === true) await soon(attempt);
  else await attempt();
  const isNew = source === 'refreshing' ? firstContent.status === 200 : source === 'fetched' && method === 'GET';
  if (isNew && firstContent.status !== 304) stage.stored.set(key, firstContent);
}

/** Repeats `attempt` until it succeeds. Throws the last attempt's error where that takes too long. */
async function soon(attempt: () => Promise<void>): Promise<void> {
  let failure: unknown;
  const succeeds = () =>
    attempt().then(
      () => true,
      (thrown: unknown) => {
        failure = thrown;
        return false;
      },
    );
  await until('the exchange succeeds', succeeds).catch(() => {
    throw failure;
  });
}

/** Returns the content of the last reply, which the client gets. */
function contentOf({ again, ...part }: Part): Content {
  return again === undefined
    ? { status: part.status ?? 200, text: part.body }
    : contentOf({ body: part.body, ...again });
}

type Destination = Required<Pick<Exchange, 'host' | 'target' | 'method'>>;

async function send(stage: Stage, exchange: Exchange, { host, target, method }: Destination): Promise<Seen> {
  const { fields = [], body } = exchange;
  const before = stage.origin.requests.length;
  const asked = () => stage.origin.requests.slice(before);
  // A request without a response is sent once more, which must not come as late as the next exchange and take its reply.
  const least = exchange.reply?.fault === 'before' ? 2 : 1;
  const request = [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...fields];
  if (body !== undefined) request.push(`Content-Length: ${body.length}`);
  await using client = await stage.listener.connect();
  client.send(`${request.join('\r\n')}\r\n\r\n${body ?? ''}`);
  const interim: string[][] = [];
  for (;;) {
    const response = await client.response(method);
    if (response === undefined) throw new Error('the connection was closed without a response');
    if (response.status >= 200) {
      if (exchange.source === 'refreshing') await until('the origin is asked', async () => asked().length >= least);
      return { response, interim, asked: asked() };
    }
    // The proxy adds its own Via to every message (RFC 9110 §7.6.3).
    const lines = response.lines.filter(([name]) => name !== 'Via');
    interim.push([String(response.status), ...lines.map(([name, value]) => `${name}: ${value}`)]);
  }
}
