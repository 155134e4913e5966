/** Asks the origins of a configuration: name, connection, TLS, and one or two requests. */

import { lookup } from 'node:dns/promises';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Config, RouteConfig } from '../../config/schema.ts';
import { fieldValue } from '../../http/fields.ts';
import { basePathOf, hostOfOrigin, type Origin, socketPathOf } from '../../origin/origin.ts';
import { parseHttpDate } from '../../semantics/http-date.ts';
import { createRouteOrigins, readOriginFieldRules } from '../../setup/origin.ts';
import { readTlsFiles } from '../../setup/tls-files.ts';
import { askOrigin, type ProbeRequest, type Reply } from '../probe/questions.ts';
import type { OriginFacts, OriginOutcome } from './origins.ts';

/** How long one step may take. */
const stepSeconds = 5;

type Clocks = {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Milliseconds of a clock that never goes back. */
  readonly elapsed: () => number;
};

/** Asks every origin and alternative of the routes, each URL once. Never rejects: what is wrong is a fact. */
export async function gatherOrigins(
  { routes }: Pick<Config, 'routes'>,
  clocks: Clocks,
): Promise<readonly OriginFacts[]> {
  const asked = new Set<string>();
  const members = routes.flatMap((route, index) =>
    [route.origin.url, ...route.origin.alternatives].flatMap((url, at) => {
      if (asked.has(url)) return [];
      asked.add(url);
      return [{ route, url, option: `routes[${index}].origin${at === 0 ? '' : `.alternatives[${at - 1}]`}` }];
    }),
  );
  return await Promise.all(members.map((member) => factsOf(member, clocks)));
}

interface Member {
  readonly route: RouteConfig;
  readonly url: string;
  readonly option: string;
}

async function factsOf({ route, url: text, option }: Member, clocks: Clocks): Promise<OriginFacts> {
  const url = new URL(text);
  const reached = await reach(url, route, clocks);
  const { addresses, deadAddresses, connectMs } = reached;
  const outcome = reached.fault ?? (await request(url, route, clocks));
  const isSigned = route.origin.signing !== undefined;
  return { option, url: text, isSigned, host: route.origin.host, addresses, deadAddresses, connectMs, outcome };
}

interface Reached extends Pick<OriginFacts, 'addresses' | 'deadAddresses' | 'connectMs'> {
  readonly fault?: OriginOutcome;
}

/** Looks the name up, and connects to every address of it. */
async function reach(url: URL, route: RouteConfig, { elapsed }: Clocks): Promise<Reached> {
  const socketPath = socketPathOf(url);
  const none = { addresses: [], deadAddresses: [], connectMs: undefined };
  if (socketPath !== undefined) {
    const startedAt = elapsed();
    const fault = await attempt(() => connect({ path: socketPath }));
    return fault === undefined
      ? { ...none, connectMs: elapsed() - startedAt }
      : { ...none, fault: { kind: 'connection', ...fault } };
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port);
  const found = await lookup(host, { all: true }).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) return { ...none, fault: { kind: 'name', ...describeError(found) } };
  const addresses = [...new Set(found.map(({ address }) => address))];
  const attempts = await Promise.all(
    addresses.map(async (address) => {
      const startedAt = elapsed();
      const fault = await attempt(() => connect({ host: address, port }));
      return { address, fault, ms: elapsed() - startedAt };
    }),
  );
  const deadAddresses = attempts.flatMap(({ address, fault }) => (fault === undefined ? [] : [address]));
  const live = attempts.find(({ fault }) => fault === undefined);
  if (live === undefined) {
    const fault = attempts[0]?.fault ?? { code: '', reason: 'it has no address' };
    return { addresses, deadAddresses, connectMs: undefined, fault: { kind: 'connection', ...fault } };
  }
  const connected = { addresses, deadAddresses, connectMs: live.ms };
  if (url.protocol === 'http:') return connected;
  const startedAt = elapsed();
  const fault = await shakeHands(live.address, port, host, route);
  return fault === undefined
    ? { ...connected, connectMs: elapsed() - startedAt }
    : { ...connected, fault: { kind: 'tls', ...fault } };
}

interface Fault {
  readonly code: string;
  readonly reason: string;
}

async function shakeHands(address: string, port: number, host: string, route: RouteConfig): Promise<Fault | undefined> {
  try {
    const tls = await readTlsFiles(route.origin);
    // Server names are no addresses (RFC 6066 §3).
    const servername = /^[\d.]+$|:/.test(host) ? '' : host;
    const options = { ...tls, host: address, port, servername, ALPNProtocols: ['http/1.1'] };
    return await attempt(() => connectTls(options), 'secureConnect');
  } catch (error) {
    return describeError(error);
  }
}

/** Resolves with why a connection is not made; undefined where it is. It is closed in any case. */
function attempt(
  open: () => Socket | TLSSocket,
  event: 'connect' | 'secureConnect' = 'connect',
): Promise<Fault | undefined> {
  const { promise, resolve } = Promise.withResolvers<Fault | undefined>();
  const socket = open();
  const late = { code: 'ETIMEDOUT', reason: `nothing within ${stepSeconds} s` };
  const timer = setTimeout(() => resolve(late), stepSeconds * 1000);
  socket.once(event, () => resolve(undefined));
  socket.on('error', (error) => resolve(describeError(error)));
  socket.once('close', () => resolve({ code: '', reason: 'the connection was closed' }));
  return promise.finally(() => {
    clearTimeout(timer);
    socket.destroy();
  });
}

function describeError(error: unknown): Fault {
  const { code = '', message = String(error) }: Partial<NodeJS.ErrnoException> = error instanceof Error ? error : {};
  return { code, reason: message.split('\n', 1)[0] ?? '' };
}

/** Sends HEAD, or GET where HEAD is not answered, and asks for one byte where there is a representation. */
async function request(url: URL, route: RouteConfig, { now }: Clocks): Promise<OriginOutcome> {
  try {
    await using resources = new AsyncDisposableStack();
    const { origin: config } = route;
    const lone = {
      ...config,
      url: url.href,
      alternatives: [],
      connectTimeoutSeconds: stepSeconds,
      headersTimeoutSeconds: 2 * stepSeconds,
      retries: { ...config.retries, attempts: 0 },
      health: { ...config.health, check: undefined },
    };
    const { origin } = await createRouteOrigins(lone, 'doctor', () => undefined);
    resources.defer(() => origin.close());
    const inquiry = await inquiryFor(url, route, origin, now);
    const head = await askOrigin(inquiry, 'HEAD');
    const answer =
      head.kind === 'answer' && head.status !== 405 && head.status !== 501 ? head : await askOrigin(inquiry, 'GET');
    if (answer.kind === 'failure') return { kind: 'no-answer', reason: answer.detail };
    const part = answer.status === 200 ? await askOrigin(inquiry, 'GET', [['range', 'bytes=0-0']]) : undefined;
    const date = parseHttpDate(fieldValue(answer.fields, 'date') ?? '', answer.responseAt);
    return {
      kind: 'answer',
      target: inquiry.target,
      status: answer.status,
      answerMs: answer.responseAt - answer.requestAt,
      hasRanges: hasRanges(part),
      // In the middle of the second that it states, and of the exchange.
      clockAheadMs: date === undefined ? undefined : date + 500 - (answer.requestAt + answer.responseAt) / 2,
    };
  } catch (error) {
    return { kind: 'no-answer', reason: describeError(error).reason };
  }
}

async function inquiryFor(url: URL, route: RouteConfig, origin: Origin, now: () => number): Promise<ProbeRequest> {
  const { host, health } = route.origin;
  const hosts = route.match?.hosts?.filter((each) => !each.startsWith('*')) ?? [];
  const named = host === 'keep' ? (hosts[0] ?? hostOfOrigin(url)) : host === 'origin' ? hostOfOrigin(url) : host;
  const rules = await readOriginFieldRules(route);
  return {
    origin,
    http2Origin: undefined,
    // The path of a health check is meant as it is.
    target: health.check?.path ?? `${basePathOf(url)}/`,
    fields: [['host', named], ['user-agent', 'rangeway-doctor'], ['accept', '*/*'], ...(rules?.constant ?? [])],
    now,
    signal: AbortSignal.timeout(6 * stepSeconds * 1000),
  };
}

function hasRanges(part: Reply | undefined): boolean | undefined {
  if (part?.kind !== 'answer' || (part.status !== 206 && part.status !== 200)) return undefined;
  return part.status === 206;
}
