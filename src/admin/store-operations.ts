/**
 * Operations of the admin API on the store: list, purge, warm, explain. Any process that shares the store can perform them. Warming
 * and explaining create requests of Rangeway's own.
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
import { type Store, type StoredEntry, StoreFault } from '../store/store.ts';
import {
  bytesInSpans,
  bytesOfBlocks,
  describeEntry,
  detailEntry,
  listEntries,
  listRankedEntries,
  refusePathOfMany,
  resolveSearch,
} from './entries.ts';
import {
  type EntryInProcess,
  type EntryStatus,
  type ExplainOrder,
  type ExplainReply,
  OperationFault,
  type StoreOperations,
  type WarmOrder,
  type WarmReport,
  type WorkerOperations,
} from './operations.ts';

/** The parts that the operations use. Those that a reload replaces are functions, and are called each time. */
export interface StoreParts extends WarmingParts {
  readonly store: Store;
  readonly cache: Pick<Cache, 'purge' | 'listArriving'>;
  readonly routes: () => readonly Route[];
  /** Explains a request by the active rules. */
  readonly explain: (request: ProxyRequest) => Promise<ExplainReply>;
}

/** Creates the operations over a store, its cache, and the active routes. */
export function createStoreOperations(
  parts: StoreParts,
): StoreOperations & Pick<WorkerOperations, 'readUses' | 'inspectHere'> {
  const { store, cache, routes } = parts;
  const inspectHere = (generation: string, sizeBytes: number): EntryInProcess => {
    const count = Math.ceil(sizeBytes / store.blockSizeBytes);
    const hot = bytesOfBlocks(store.blocksInMemory(generation, count), store.blockSizeBytes, sizeBytes);
    const arriving = cache.listArriving(generation).map((span) => ({ ...span, fillId: generation }));
    return { hot, arriving };
  };
  return {
    async listEntries(search, limit, after, order) {
      const choice = resolveSearch(search, routes());
      const { entries, next } =
        order === undefined
          ? await orUnavailable(listEntries(store, choice, limit, after))
          : await orUnavailable(listRankedEntries(store, choice, order, limit, after));
      return { entries: await describeAll(entries, store), next };
    },
    async inspectEntry(key, generation) {
      const entry = (await store.find(key)).find((candidate) => candidate.generation === generation);
      if (entry === undefined) throw gone();
      const present = await readPresence(entry);
      const usedAt = store.usedAt(generation);
      return detailEntry(entry, { present, usedAt, ...inspectHere(generation, entry.sizeBytes) }, store.blockSizeBytes);
    },
    readUses: async (generations) => generations.map((generation) => store.usedAt(generation)),
    inspectHere: async (generation, sizeBytes) => inspectHere(generation, sizeBytes),
    async purge({ search, mode }) {
      return { entries: await orUnavailable(cache.purge({ ...resolveSearch(search, routes()), mode })) };
    },
    warm: (order) => warm(order, parts),
    explain: (order) => explain(order, parts),
  };
}

/** Waits for an operation of the store. Rejects with `OperationFault` where the store cannot do it now. */
async function orUnavailable<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (thrown) {
    if (thrown instanceof StoreFault) throw new OperationFault('unavailable', thrown.message);
    throw thrown;
  }
}

/** Number of entries whose present bytes are looked up at a time. */
const presencesAtOnce = 8;

async function describeAll(entries: readonly StoredEntry[], store: Store): Promise<readonly EntryStatus[]> {
  const described: EntryStatus[] = [];
  for (let at = 0; at < entries.length; at += presencesAtOnce) {
    const some = entries.slice(at, at + presencesAtOnce).map(async (entry) => {
      const presentBytes = entry.isComplete ? entry.sizeBytes : await countPresent(entry, store.blockSizeBytes);
      return describeEntry(entry, { presentBytes, usedAt: store.usedAt(entry.generation) });
    });
    described.push(...(await Promise.all(some)));
  }
  return described;
}

/** Returns how many bytes of an entry are stored: none where it is gone meanwhile. */
async function countPresent(entry: StoredEntry, blockSizeBytes: number): Promise<number> {
  try {
    return bytesInSpans(bytesOfBlocks(await readPresence(entry), blockSizeBytes, entry.sizeBytes));
  } catch (thrown) {
    if (thrown instanceof OperationFault && thrown.reason === 'not_found') return 0;
    throw thrown;
  }
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

/** The active routes, and the addresses that are served. */
interface Serving {
  readonly routes: () => readonly Pick<Route, 'match'>[];
  /** The addresses that clients connect to, such as `http://127.0.0.1:8080`. */
  readonly addresses: () => readonly string[];
}

/** Names and values of fields that a client may send (RFC 9110 §5.1, §5.5), and names that an order must not contain. */
const fieldName = /^[!#$%&'*+.^_`|~\w-]{1,256}$/;
const fieldText = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const ownNames: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'upgrade']);

/** Returns the fields with names in lower case. Throws `OperationFault` `invalid` for those that cannot be sent, such as Content-Length. */
function readFields(fields: Fields): Fields {
  const read = fields.map(([name, value]) => [name.toLowerCase(), value] as const);
  const unfit = read.find(([name, value]) => !fieldName.test(name) || !fieldText.test(value) || ownNames.has(name));
  if (unfit === undefined) return read;
  throw new OperationFault('invalid', `a field ${JSON.stringify(unfit[0])} cannot be sent`);
}

/**
 * Returns a URL as it is. Completes a path alone by an address of this server: the URL that a client on this machine would ask for,
 * under which its response is stored. Throws `OperationFault` `invalid` for a path where there are several routes, where the route
 * has hosts, or where no address of a listener is one that clients can name.
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
  // A listener for http beside one for https often only redirects, so https is preferred.
  const named = addresses().filter(
    (address) => /^https?:/.test(address) && !/\/\/(?:0\.0\.0\.0|\[::\])(?::|$)/.test(address),
  );
  const [address] = [...named.filter((each) => each.startsWith('https:')), ...named];
  if (address !== undefined) return address + path;
  throw insteadOf('no listener has an address that clients ask for', 'https://example.org');
}

/** Creates the request for a URL; undefined where that is no http or https URL. A Host among the fields replaces its authority. */
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

/** The peer of Rangeway's own requests has no address. */
const ourselves = { address: '', port: 0 };

/** The parts that warming uses. */
interface WarmingParts extends Serving {
  /** Answers Rangeway's own requests by the active routes: no access rule applies, but the limits of origins do. */
  readonly handler: () => Handler;
  readonly clock: Clock;
}

/** Maximum number of URLs in one order. */
export const maxUrls = 1000;

/** Number of URLs that are fetched at a time. */
const CONCURRENT = 4;

/** How often a URL is tried while Rangeway answers with 503, and the pause before each further try, in milliseconds. */
const ATTEMPTS = 30;
const PAUSE_MS = 1000;

/**
 * Requests each URL with GET as a client would, a few at a time, and discards the bodies. URLs without a route are refused as for
 * every client, so nothing else can be reached. Redirects are reported, not followed. A path alone is completed (`completeUrl`).
 * Rejects with `OperationFault` `invalid`.
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
    const fetched = await fetchOne(url, fields, parts);
    // Rangeway's own 503: a limit of the origin is reached, for example. It asks for another try.
    const isBusy = fetched.isBusy && attempt < ATTEMPTS;
    if (!isBusy) return fetched.report;
    await new Promise<void>((resolve) => void parts.clock.after(PAUSE_MS, resolve));
  }
}

interface Fetched {
  readonly report: WarmReport;
  readonly isBusy: boolean;
}

async function fetchOne(url: string, fields: Fields, { handler, clock }: WarmingParts): Promise<Fetched> {
  const request = ownRequest(url, { method: 'GET', fields, peer: ourselves, receivedAt: clock.now() });
  if (request === undefined) {
    return { report: reportOf(url, 0, undefined, 0, 'expected an http or https URL'), isBusy: false };
  }
  const { status, fields: received, body, problem, onDelivered } = await handler()(request);
  const { bytes, error } = await discardBody(body);
  onDelivered?.({ bytesSent: bytes, complete: error === undefined, error });
  const cacheStatus = fieldValue(received, 'cache-status');
  // An error of Rangeway's own is no response of the resource.
  const reason = problem?.detail ?? error?.message;
  const report = reportOf(url, status, cacheStatus, problem === undefined ? bytes : 0, reason);
  return { report, isBusy: status === 503 && problem !== undefined };
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

/** Reads a body to its end. Returns its length in bytes, and the error where it broke off. */
async function discardBody(body: Body) {
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
