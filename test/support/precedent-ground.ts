/**
 * The whole road of a request without sockets, and a listener before it that follows precedents, or follows none: what one of
 * them gives and tells, the other one has to give and tell too.
 */

import { ByteBudget } from '../../src/cache/byte-budget.ts';
import { type Cache, createCache } from '../../src/cache/cache.ts';
import { noFleet } from '../../src/cache/fleet.ts';
import { type AccessRules, createAccess } from '../../src/guard/access.ts';
import { type AllowanceRules, createAllowances } from '../../src/guard/allowances.ts';
import { createGate } from '../../src/guard/gate.ts';
import { createPresentation, type PresentationParts } from '../../src/guard/presentation.ts';
import { type Field, type Fields, fieldLines } from '../../src/http/fields.ts';
import type { Body, Handler, PrecedentResponse, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { type ProxyError, toProxyError } from '../../src/http/proxy-error.ts';
import { tellRequests } from '../../src/listener/beginnings.ts';
import { Precedents } from '../../src/listener/precedents.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { createRangeAbility } from '../../src/origin/range-ability.ts';
import { createProxy } from '../../src/proxy.ts';
import type { Route } from '../../src/routing/route.ts';
import { createRouter } from '../../src/routing/router.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { Store } from '../../src/store/store.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { defaultCaching } from './default-caching.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { noLimits } from './open-gate.ts';
import { quietFillPolicy } from './quiet-fill-policy.ts';
import { sequentialIds } from './sequential-ids.ts';
import { turn } from './turn.ts';

/** A peer that is believed when it tells for whom it speaks, and that is told what would become of a request. */
export const trustedPeer = '198.51.100.1';

/** A request, as far as a test cares. */
export interface Asked {
  readonly method?: string;
  readonly target?: string;
  readonly peer?: string;
  readonly fields?: Readonly<Record<string, string>>;
}

/** What a client got, and by which road. */
export interface Got {
  readonly status: number;
  /** In the order of their names. */
  readonly fields: readonly string[];
  /** What Content-Length would say. */
  readonly sizeBytes: number | undefined;
  readonly bytes: Buffer;
  /** Why the body broke off, if it did. */
  readonly error: string | undefined;
  readonly isFollowed: boolean;
}

export interface PrecedentGroundOptions {
  readonly origin: Origin;
  readonly isFollowing: boolean;
  readonly access?: Partial<AccessRules>;
  readonly limits?: Partial<AllowanceRules>;
  readonly cache?: Partial<Route['cache']>;
  /** One that stands still without it. */
  readonly clock?: FakeClock;
  readonly createStore?: (now: () => number, randomId: () => string) => Store;
}

/** What a reload may change. */
export type Rules = Partial<PresentationParts>;

/** One such road. */
export class PrecedentGround {
  readonly clock: FakeClock;
  readonly store: Store;
  readonly cache: Cache;
  readonly events: ServerEvent[] = [];
  readonly #options: PrecedentGroundOptions;
  readonly #route: Route;
  readonly #precedents = new Precedents();
  /** What a listener would call. */
  readonly handler: Handler;
  /** Told what is paid back: the address of a client, the key and the bytes. */
  onRepaid: (address: string, key: string, bytes: number) => void = () => {};
  #serving: Handler;
  #service = { isServing: true };

  constructor(options: PrecedentGroundOptions, rules: Rules = {}) {
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
    this.handler = tellRequests((request) => this.#serving(request), emit);
  }

  /** Goes on with other rules. */
  reload(rules: Rules): void {
    this.#service.isServing = false;
    this.#service = { isServing: true };
    this.#serving = this.#createHandler(rules);
  }

  /** Asks, and reads all of the response. */
  async ask(asked: Asked = {}): Promise<Got> {
    const request = requestOf(asked, this.clock.now());
    const head = headOf(request);
    const { peer, receivedAt } = request;
    const [range] = fieldLines(request.fields, 'range');
    const precedent = this.#options.isFollowing ? this.#precedents.find(head) : undefined;
    const followed = precedent?.follow({ range, peer, receivedAt });
    if (followed !== undefined) return this.#readFollowed(followed);
    const answered = this.handler(request);
    const isAtOnce = !(answered instanceof Promise);
    const response = await answered;
    const got = await readResponse(response, request.method);
    if (!isAtOnce) await turn();
    if (response.precedent !== undefined && isAtOnce) this.#precedents.put(head, response.precedent);
    return got;
  }

  /** The precedent that a request leaves, if it leaves one. */
  async leaves(asked: Asked): Promise<ProxyResponse['precedent']> {
    const request = requestOf(asked, this.clock.now());
    const response = await this.handler(request);
    await readResponse(response, request.method);
    return response.precedent;
  }

  async close(): Promise<void> {
    await this.cache.close();
    await this.store.close();
  }

  #readFollowed(response: PrecedentResponse): Got {
    const { status, fields, contentRange, sizeBytes, chunks } = response;
    const bytes = Buffer.concat(chunks);
    response.onDelivered({ bytesSent: bytes.length, complete: true });
    const all: Fields = contentRange === undefined ? fields : [...fields, ['content-range', contentRange]];
    return { status, fields: inOrder(all), sizeBytes, bytes, error: undefined, isFollowed: true };
  }

  #createHandler(rules: Rules): Handler {
    const { access, limits } = this.#options;
    const limited = createGate({
      access: createAccess({ allow: undefined, deny: undefined, credentials: undefined, ...access }),
      allowances: createAllowances({ ...noLimits, ...limits }, this.clock),
      presentation: createPresentation({ cors: undefined, security: undefined, change: undefined, ...rules }),
    });
    const repay: typeof limited.repay = (...paid) => {
      this.onRepaid(...paid);
      limited.repay(...paid);
    };
    const gate = { ...limited, repay };
    return createProxy({
      router: createRouter([this.#route]),
      cache: this.cache,
      clock: this.clock,
      emit: (event) => void this.events.push(event),
      pseudonym: 'rangeway-test',
      gateOf: () => gate,
      trust: { isTrusted: (address) => address === trustedPeer, fields: 'x-forwarded' },
      random: (size) => new Uint8Array(size).fill(0xb0),
      service: this.#service,
    });
  }
}

function createTestRoute({ origin, cache }: PrecedentGroundOptions, now: () => number): Route {
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
    rangeAbility: createRangeAbility({ mode: 'auto', now, forgetAfterMs, onDistrust: () => {} }),
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

/** All that a request says, but for the value of Range. */
function headOf({ method, target, fields }: ProxyRequest): string {
  return JSON.stringify([method, target, fields.map(([name, value]) => [name, name === 'range' ? '' : value])]);
}

async function readResponse({ status, fields, body, onDelivered }: ProxyResponse, method: string): Promise<Got> {
  const chunks: Uint8Array[] = [];
  const error = method === 'HEAD' ? undefined : await readInto(chunks, body);
  if (body.kind === 'stream') body.stream.close();
  const bytes = Buffer.concat(chunks);
  onDelivered?.({ bytesSent: bytes.length, complete: error === undefined, error });
  const sizeBytes = body.kind === 'none' ? undefined : body.sizeBytes;
  return { status, fields: inOrder(fields), sizeBytes, bytes, error: error?.code, isFollowed: false };
}

/** Tells why the body broke off, if it did. */
async function readInto(chunks: Uint8Array[], body: Body): Promise<ProxyError | undefined> {
  if (body.kind === 'none') return undefined;
  try {
    for await (const chunk of body.kind === 'bytes' ? body.chunks : body.stream) chunks.push(chunk);
    return undefined;
  } catch (thrown) {
    return toProxyError(thrown);
  }
}

function inOrder(fields: Fields): readonly string[] {
  return fields.map(([name, value]) => `${name}: ${value}`).sort();
}
