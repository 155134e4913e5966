/** The whole path of a request without sockets: the handler that listeners call, over a store and an origin of the test. */

import { type Cache, createCache } from '../../../src/cache/cache.ts';
import { noFleet } from '../../../src/cache/fleet.ts';
import { ByteBudget } from '../../../src/cache/read/read-ahead.ts';
import { type AccessRules, createAccess } from '../../../src/guard/access/access.ts';
import { createPresentation, type PresentationParts } from '../../../src/guard/fields/presentation.ts';
import { createGate } from '../../../src/guard/gate.ts';
import { type AllowanceRules, createAllowances } from '../../../src/guard/limits/allowances.ts';
import type { Field, Fields } from '../../../src/http/fields.ts';
import type { Body, Handler, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { type ProxyError, toProxyError } from '../../../src/http/proxy-error.ts';
import type { Origin } from '../../../src/origin/origin.ts';
import { createRangeAbility } from '../../../src/origin/range-ability.ts';
import { createProxy } from '../../../src/proxy.ts';
import { createRouter, type Route } from '../../../src/routing/router.ts';
import { createMemoryStore } from '../../../src/store/memory/memory-store.ts';
import type { Store } from '../../../src/store/store.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { createFakeClock, type FakeClock } from '../clocks/fake-clock.ts';
import { sequentialIds } from '../clocks/sequential-ids.ts';
import { turn } from '../clocks/turn.ts';
import { defaultCaching } from './default-caching.ts';
import { noLimits } from './open-gate.ts';
import { quietFillPolicy } from './quiet-fill-policy.ts';

/** The address of a trusted proxy: its X-Forwarded fields count. */
export const trustedPeer = '198.51.100.1';

/** The parts of a request that a test sets; the others have defaults. */
export interface Asked {
  readonly method?: string;
  readonly target?: string;
  readonly peer?: string;
  readonly fields?: Readonly<Record<string, string>>;
}

/** A response as its client got it. */
export interface Got {
  readonly status: number;
  /** Sorted field lines. */
  readonly fields: readonly string[];
  /** The size that Content-Length would have; undefined where it is unknown or there is no body. */
  readonly sizeBytes: number | undefined;
  readonly bytes: Buffer;
  /** The error code of a body that broke off. */
  readonly error: string | undefined;
}

export interface RoadGroundOptions {
  readonly origin: Origin;
  readonly access?: Partial<AccessRules>;
  readonly limits?: Partial<AllowanceRules>;
  readonly cache?: Partial<Route['cache']>;
  /** By default a clock that stands still. */
  readonly clock?: FakeClock;
  readonly createStore?: (now: () => number, randomId: () => string) => Store;
}

/** The rules that a reload may change. */
export type Rules = Partial<PresentationParts>;

/** A handler with its store, cache and clock. */
export class RoadGround {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly cache: Cache;
  readonly events: ServerEvent[] = [];
  readonly #options: RoadGroundOptions;
  readonly #route: Route;
  /** The handler that a listener would call. */
  readonly handler: Handler;
  #serving: Handler;

  constructor(options: RoadGroundOptions, rules: Rules = {}) {
    this.clock = options.clock ?? createFakeClock();
    const { now } = this.clock;
    const randomId = sequentialIds();
    const emit = (event: ServerEvent) => void this.events.push(event);
    this.#options = options;
    this.store =
      options.createStore?.(now, randomId) ??
      createMemoryStore({ maxSizeBytes: 1024 * 1024, blockSizeBytes: 1024, now, randomId });
    const readAhead = new ByteBudget(1024 * 1024);
    this.cache = createCache({
      store: this.store,
      clock: this.clock,
      emit,
      windowBytes: 4096,
      readAhead,
      fleet: noFleet,
    });
    this.#route = createTestRoute(options, now);
    this.#serving = this.#createHandler(rules);
    this.handler = (request) => {
      emit({ kind: 'begun', what: 'request' });
      return this.#serving(request);
    };
  }

  /** Uses other rules from now on. */
  reload(rules: Rules): void {
    this.#serving = this.#createHandler(rules);
  }

  /** Sends a request, and reads the whole response. */
  async ask(asked: Asked = {}): Promise<Got> {
    const request = requestOf(asked, this.clock.now());
    const answered = this.handler(request);
    const got = await readResponse(await answered, request.method);
    if (answered instanceof Promise) await turn();
    return got;
  }

  /** Sends a request from a client that takes movable bodies, and returns the unread body. */
  async bodyFor(asked: Asked): Promise<Body> {
    const request = { ...requestOf(asked, this.clock.now()), takesMovable: true };
    const { body } = await this.handler(request);
    if (body.kind === 'stream') body.stream.close();
    return body;
  }

  async close(): Promise<void> {
    await this.cache.close();
    await this.store.close();
  }

  #createHandler(rules: Rules): Handler {
    const { access, limits } = this.#options;
    const gate = createGate({
      access: createAccess({ allow: undefined, deny: undefined, credentials: undefined, ...access }),
      allowances: createAllowances({ ...noLimits, ...limits }, this.clock),
      presentation: createPresentation({ cors: undefined, security: undefined, change: undefined, ...rules }),
    });
    return createProxy({
      router: createRouter([this.#route]),
      cache: this.cache,
      clock: this.clock,
      emit: (event) => void this.events.push(event),
      prefetchOf: new Map(),
      pseudonym: 'rangeway-test',
      gateOf: () => gate,
      trust: { isTrusted: (address) => address === trustedPeer, fields: 'x-forwarded' },
      random: (size) => new Uint8Array(size).fill(0xb0),
    });
  }
}

function createTestRoute({ origin, cache }: RoadGroundOptions, now: () => number): Route {
  const forgetAfterMs = 600_000;
  return {
    name: 'main',
    match: { hosts: [], pathPrefix: '/' },
    stripPathPrefix: false,
    originUrl: new URL('http://origin.example'),
    origin,
    tls: { ca: undefined, rejectUnauthorized: true },
    host: 'origin',
    ranges: { maxRanges: 10, coalesceGapBytes: 0 },
    rangeSupport: createRangeAbility({ mode: 'auto', now, forgetAfterMs, onDistrust: () => {} }),
    fill: quietFillPolicy,
    lengthWaitMs: 10_000,
    closeDelimited: 'store',
    cache: { ...defaultCaching, ...cache },
  };
}

function requestOf({ method = 'GET', target = '/file', peer = '192.0.2.7', fields = {} }: Asked, now: number) {
  const lines = Object.entries(fields).map(([name, value]): Field => [name, value]);
  const request: ProxyRequest = {
    method,
    target,
    scheme: 'http',
    authority: 'files.example',
    version: '1.1',
    fields: [['host', 'files.example'], ...lines],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: peer, port: 40_000 },
    receivedAt: now,
    signal: new AbortController().signal,
    sendInterim: () => {},
  };
  return request;
}

async function readResponse({ status, fields, body, onDelivered }: ProxyResponse, method: string): Promise<Got> {
  const chunks: Uint8Array[] = [];
  const error = method === 'HEAD' ? undefined : await readInto(chunks, body);
  if (body.kind === 'stream') body.stream.close();
  const bytes = Buffer.concat(chunks);
  onDelivered?.({ bytesSent: bytes.length, complete: error === undefined, error });
  const sizeBytes = body.kind === 'none' ? undefined : body.sizeBytes;
  return { status, fields: inOrder(fields), sizeBytes, bytes, error: error?.code };
}

/** Reads a body into chunks. Returns the error where it breaks off. */
async function readInto(chunks: Uint8Array[], body: Body): Promise<ProxyError | undefined> {
  if (body.kind === 'none') return undefined;
  try {
    const read = body.kind === 'file' ? await body.bytes.rest(0) : undefined;
    for await (const chunk of read ??
      (body.kind === 'bytes' ? body.chunks : body.kind === 'stream' ? body.stream : [])) {
      chunks.push(chunk);
    }
    return undefined;
  } catch (thrown) {
    return toProxyError(thrown);
  }
}

function inOrder(fields: Fields): readonly string[] {
  return fields.map(([name, value]) => `${name}: ${value}`).sort();
}
