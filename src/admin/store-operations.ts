/**
 * Operations of the admin API on the store: list, purge, warm, explain. Any process that shares the store can do them. Warming
 * and explaining make requests of their own.
 */

import type { SpanSet } from '../bytes/span.ts';
import type { Cache } from '../cache/cache.ts';
import { isAddress } from '../guard/client.ts';
import type { Clock } from '../http/clock.ts';
import { type Fields, fieldValue } from '../http/fields.ts';
import type { Body, Handler, ProxyRequest } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { parsePath, parseResourceUrl } from '../routing/cache-key.ts';
import type { Route } from '../routing/router.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import { describeEntry, detailEntry, listEntries, refusePathOfMany, resolveSearch } from './entries.ts';
import {
  type ExplainOrder,
  type ExplainReply,
  OperationFault,
  type StoreOperations,
  type WarmOrder,
  type WarmReport,
} from './operations.ts';

/** What the operations work with. What a reload puts in place of another is asked for each time. */
export interface StoreParts extends WarmingParts {
  readonly store: Store;
  readonly cache: Pick<Cache, 'purge'>;
  readonly routes: () => readonly Route[];
  /** Says what would become of a request by the rules that serve now. */
  readonly explain: (request: ProxyRequest) => Promise<ExplainReply>;
}

/** Creates the operations over a store, the cache over it, and the routes that serve now. */
export function createStoreOperations(parts: StoreParts): StoreOperations {
  const { store, cache, routes } = parts;
  return {
    async listEntries(search, limit, after) {
      const { entries, next } = await listEntries(store, resolveSearch(search, routes()), limit, after);
      return { entries: entries.map(describeEntry), next };
    },
    async inspectEntry(key, generation) {
      const entry = (await store.find(key)).find((candidate) => candidate.generation === generation);
      if (entry === undefined) throw gone();
      return detailEntry(entry, await readPresence(entry), store.blockSizeBytes);
    },
    async purge({ search, mode }) {
      return { entries: await cache.purge({ ...resolveSearch(search, routes()), mode }) };
    },
    warm: (order) => warm(order, parts),
    explain: (order) => explain(order, parts),
  };
}

const method = /^[A-Za-z][!#$%&'*+.^_`|~\w-]{0,63}$/;

async function explain(order: ExplainOrder, parts: StoreParts): Promise<ExplainReply> {
  const { url, method: asked = 'GET', fields = [], client = '127.0.0.1' } = order;
  if (!method.test(asked)) throw new OperationFault('invalid', 'expected a method such as HEAD');
  if (!isAddress(client)) throw new OperationFault('invalid', 'expected the IP address of a client');
  const request = ownRequest(completeUrl(url, parts), {
    method: asked,
    fields: readFields(fields),
    peer: { address: client, port: 0 },
    receivedAt: parts.clock.now(),
  });
  if (request !== undefined) return await parts.explain(request);
  throw new OperationFault('invalid', `expected an http or https URL, got ${JSON.stringify(url)}`);
}

async function readPresence(entry: StoredEntry): Promise<SpanSet> {
  try {
    return await entry.readPresence();
  } catch (thrown) {
    if (thrown instanceof ProxyError && thrown.code === 'bytes_gone') throw gone();
    throw thrown;
  }
}

function gone(): OperationFault {
  return new OperationFault('not_found', 'Nothing is stored under this key with this generation.');
}

/** What is served now, and where. */
interface Serving {
  readonly routes: () => readonly Pick<Route, 'match'>[];
  /** The addresses that clients connect to, such as `http://127.0.0.1:8080`. */
  readonly addresses: () => readonly string[];
}

/** A field that a client may send (RFC 9110 §5.1, §5.5), and that is not ours to set. */
const fieldName = /^[!#$%&'*+.^_`|~\w-]{1,256}$/;
const fieldText = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const ownNames: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'upgrade']);

/** The fields in lower case. Throws `OperationFault` `invalid` for those that cannot be sent, such as Content-Length. */
function readFields(fields: Fields): Fields {
  const read = fields.map(([name, value]) => [name.toLowerCase(), value] as const);
  const unfit = read.find(([name, value]) => !fieldName.test(name) || !fieldText.test(value) || ownNames.has(name));
  if (unfit === undefined) return read;
  throw new OperationFault('invalid', `a field ${JSON.stringify(unfit[0])} cannot be sent`);
}

/**
 * A URL as it is. A path alone is completed by where a client on this machine connects: this is the URL that such a client
 * asks for, and what it gets is stored under. Throws `OperationFault` `invalid` for a path where there are several routes, or
 * where no address of the listeners is one that clients could name.
 */
function completeUrl(text: string, { routes, addresses }: Serving): string {
  const path = parsePath(text);
  if (path === undefined) return text;
  const all = routes();
  refusePathOfMany(text, all);
  const hosts = all.flatMap(({ match }) => match.hosts);
  const insteadOf = (why: string, example: string) =>
    new OperationFault('invalid', `${why}: expected a whole URL such as "${example}${path}"`);
  if (hosts.length > 0) throw insteadOf(`the route is for ${hosts.join(', ')} only`, 'https://example.org');
  // A listener for http beside one for https often does no more than redirect.
  const named = addresses().filter(
    (address) => /^https?:/.test(address) && !/\/\/(?:0\.0\.0\.0|\[::\])(?::|$)/.test(address),
  );
  const [address] = [...named.filter((each) => each.startsWith('https:')), ...named];
  if (address !== undefined) return address + path;
  throw insteadOf('no listener has an address that clients ask for', 'https://example.org');
}

/** The request of a client for a URL; undefined for what is no http or https URL. A Host among the fields replaces its authority. */
function ownRequest(
  url: string,
  { method, fields, peer, receivedAt }: Pick<ProxyRequest, 'method' | 'fields' | 'peer' | 'receivedAt'>,
): ProxyRequest | undefined {
  const place = parseResourceUrl(url);
  if (place === undefined) return undefined;
  const authority = fieldValue(fields, 'host') ?? place.authority;
  return {
    method,
    scheme: /^\s*https:/i.test(url) ? 'https' : 'http',
    authority,
    target: place.target,
    version: '1.1',
    fields: [['host', authority], ...fields.filter(([name]) => name !== 'host')],
    body: undefined,
    bodySizeBytes: undefined,
    peer,
    receivedAt,
    signal: new AbortController().signal,
    sendInterim: () => {},
  };
}

/** The peer of requests of our own has no address. */
const ourselves = { address: '', port: 0 };

/** What is fetched with. */
interface WarmingParts extends Serving {
  /** Answers requests of our own, by the routes that serve now: access is not asked, limits of origins hold. */
  readonly handler: () => Handler;
  readonly clock: Clock;
}

/** The most URLs of one order. */
export const maxUrls = 1000;

/** So many are fetched at a time. */
const CONCURRENT = 4;

/** How often one is tried that finds the origin's places taken, and how long it waits each time, in milliseconds. */
const ATTEMPTS = 30;
const PAUSE_MS = 1000;

/**
 * Asks for each URL as a client would with GET, a few at a time, and reads what comes without keeping it. URLs of no route
 * are refused, as for every client: nothing else can be reached by this. Redirects are told, not followed. A path alone is
 * completed (see `completeUrl`). Throws `OperationFault` `invalid`.
 */
async function warm({ urls, fields = [] }: WarmOrder, parts: WarmingParts): Promise<readonly WarmReport[]> {
  if (urls.length > maxUrls)
    throw new OperationFault('invalid', `expected at most ${maxUrls} URLs, got ${urls.length}`);
  const sent = readFields(fields);
  if (sent.some(([name]) => name === 'host')) throw new OperationFault('invalid', 'a field "host" cannot be sent');
  const whole = urls.map((url) => completeUrl(url, parts));
  const reports: WarmReport[] = new Array(urls.length);
  const waiting = whole.entries();
  const work = async (): Promise<void> => {
    for (const [at, url] of waiting) reports[at] = await warmOne(url, sent, parts);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return reports;
}

async function warmOne(url: string, fields: Fields, parts: WarmingParts): Promise<WarmReport> {
  for (let attempt = 1; ; attempt += 1) {
    const report = await fetchOne(url, fields, parts);
    // No place at the origin, or no patience of its own: it says to come back.
    const isBusy = report.isBusy && attempt < ATTEMPTS;
    if (!isBusy) return report.told;
    await new Promise<void>((resolve) => void parts.clock.after(PAUSE_MS, resolve));
  }
}

interface Fetched {
  readonly told: WarmReport;
  readonly isBusy: boolean;
}

async function fetchOne(url: string, fields: Fields, { handler, clock }: WarmingParts): Promise<Fetched> {
  const request = ownRequest(url, { method: 'GET', fields, peer: ourselves, receivedAt: clock.now() });
  if (request === undefined) {
    return { told: reportOf(url, 0, undefined, 0, 'expected an http or https URL'), isBusy: false };
  }
  const { status, fields: received, body, problem, onDelivered } = await handler()(request);
  const { bytes, error } = await readAway(body);
  onDelivered?.({ bytesSent: bytes, complete: error === undefined, error });
  const cacheStatus = fieldValue(received, 'cache-status');
  // A problem of our own is no response of the resource.
  const reason = problem?.detail ?? error?.message;
  const told = reportOf(url, status, cacheStatus, problem === undefined ? bytes : 0, reason);
  return { told, isBusy: status === 503 && problem !== undefined };
}

function reportOf(
  url: string,
  status: number,
  cacheStatus: string | undefined,
  bytes: number,
  error: string | undefined,
): WarmReport {
  return { url, status, cacheStatus, bytes, error };
}

/** Reads a body to its end; tells how much it was, and why it broke off. */
async function readAway(body: Body) {
  if (body.kind !== 'stream') return { bytes: body.kind === 'none' ? 0 : body.sizeBytes, error: undefined };
  let bytes = 0;
  try {
    for await (const chunk of body.stream) bytes += chunk.length;
    return { bytes, error: undefined };
  } catch (thrown) {
    return { bytes, error: toProxyError(thrown) };
  } finally {
    body.stream.close();
  }
}
