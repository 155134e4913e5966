/**
 * Decides which requests may use which endpoint of the admin listener. Guesses of the token are limited, and only a few refusals
 * are logged, so that a flood of them cannot fill the log.
 */

import { problemResponse } from '../delivery/problem.ts';
import { type Credentials, readAuthorization } from '../guard/access/authorization.ts';
import { clientName, isAddress } from '../guard/client.ts';
import { sessionCookie } from '../guard/fields/forwarding.ts';
import { LeakyBuckets } from '../guard/limits/rate-limit.ts';
import { type Field, type Fields, fieldValue } from '../http/fields.ts';
import type { Peer, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { parseCookies } from '../semantics/cookies.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Sessions } from './sessions.ts';

/**
 * Which requests are admitted to an endpoint. `anyone`: all. `watcher`: all where only this machine can connect, otherwise as
 * `operator`. `operator`: those with the token or a session; where no token is configured, those over a Unix socket too.
 */
export type EndpointAccess = 'anyone' | 'watcher' | 'operator';

/** The parts that decisions are made with. */
export interface AdminGateContext {
  readonly emit: Emit;
  readonly rules: Omit<AdmissionRules, 'hasToken'>;
  /** Checks whether a text is the token; undefined where none is configured. */
  readonly isToken: ((text: string) => boolean) | undefined;
  readonly guesses: Guesses;
  readonly sessions: Sessions;
}

/** Returns the refusal of a request for an endpoint with this access; undefined where it is admitted. Throws `ProxyError`. */
export function checkAccess(
  request: ProxyRequest,
  access: EndpointAccess,
  context: AdminGateContext,
): ProxyResponse | undefined {
  const refusal = findRefusal(request, access, context);
  if (refusal === undefined) return undefined;
  const { status, detail, fields } = refusal;
  tellRefusal(request, refusal, context);
  return problemResponse(status, detail, fields);
}

function findRefusal(
  request: ProxyRequest,
  access: EndpointAccess,
  { rules, isToken, guesses, sessions }: AdminGateContext,
): Refusal | undefined {
  const { authority, fields, peer } = request;
  const caller = { authority, origin: fieldValue(fields, 'origin'), fetchSite: fieldValue(fields, 'sec-fetch-site') };
  const strange = refuseForeignCaller(caller, rules);
  if (strange !== undefined) return strange;
  const credentials = readAuthorization(fields);
  const decision = decideAdmission(access, credentials, { ...rules, hasToken: isToken !== undefined });
  if (decision.kind === 'admitted') return undefined;
  // A cookie counts only without other credentials.
  const session = credentials === undefined ? sessionOf(fields, sessions) : noSession;
  if (session.kind === 'open') return refuseForgery(request, rules);
  if (session.kind === 'ended') return refused(401, 'The session has ended: log in again.', [bearerChallenge('')]);
  if (decision.kind === 'refused') return decision;
  const waitMs = guesses.waitMs(peer.address);
  if (waitMs > 0)
    return { kind: 'refused', status: 429, detail: 'Too many wrong tokens.', fields: [retryAfter(waitMs)] };
  if (isToken?.(decision.token) === true) return undefined;
  guesses.note(peer.address);
  return wrongToken();
}

/** The session that the cookie of a request stands for. */
type SessionReading = { readonly kind: 'none' | 'ended' } | { readonly kind: 'open'; readonly cookie: string };

const noSession: SessionReading = { kind: 'none' };

/** Returns the session of a request. Of several cookies with its name, which other ports of the host may have set, one is enough. */
export function sessionOf(fields: Fields, sessions: Sessions): SessionReading {
  const cookies = parseCookies(fields)
    .filter(({ name }) => name === sessionCookie)
    .map(({ pair }) => pair.slice(sessionCookie.length + 1));
  const open = cookies.find((cookie) => sessions.has(cookie));
  if (open !== undefined) return { kind: 'open', cookie: open };
  return cookies.length === 0 ? noSession : { kind: 'ended' };
}

/** Returns a function that tells whether a request that was admitted still would be: one with a session, as long as that goes on. */
export function admissionOf({ fields }: Pick<ProxyRequest, 'fields'>, sessions: Sessions): () => boolean {
  const session = readAuthorization(fields) === undefined ? sessionOf(fields, sessions) : noSession;
  return session.kind === 'open' ? () => sessions.has(session.cookie) : () => true;
}

/**
 * Refuses requests with the cookie of a session that a page of another origin may have caused, where `refuseForeignCaller` has
 * found nothing: the browser has to say that our own page, or its user, has sent it. Browsers do not say so of a plain GET to a
 * network address without TLS, so there a GET is admitted: it changes nothing, and other origins cannot read its response. A
 * request that may change something needs a field and a media type besides that no form can send, and scripts of other origins
 * only after a preflight request.
 */
export function refuseForgery(
  { method, authority, fields }: Pick<ProxyRequest, 'method' | 'authority' | 'fields'>,
  { reach }: Pick<AdmissionRules, 'reach'>,
): Refusal | undefined {
  const isSafe = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
  const fetchSite = fieldValue(fields, 'sec-fetch-site');
  const isOwn =
    fetchSite === 'same-origin' || fetchSite === 'none' || isOwnOrigin(fieldValue(fields, 'origin'), authority);
  if (!isOwn && !(isSafe && fetchSite === undefined && reach === 'network')) {
    return refused(403, 'A session is only for the dashboard of this listener.');
  }
  const isStated =
    fieldValue(fields, 'x-rangeway-request') === '1' &&
    /^application\/json[\t ]*(?:;|$)/i.test(fieldValue(fields, 'content-type') ?? '');
  if (isSafe || isStated) return undefined;
  return refused(403, 'With a session this needs "X-Rangeway-Request: 1" and "Content-Type: application/json".');
}

function isOwnOrigin(origin: string | undefined, authority: string): boolean {
  return origin?.toLowerCase() === `http://${authority.toLowerCase()}`;
}

/** Logs a refusal, unless there are too many. */
export function tellRefusal(
  { peer }: ProxyRequest,
  { status, detail }: Pick<Refusal, 'status' | 'detail'>,
  { guesses, emit }: AdminGateContext,
): void {
  const refusals = guesses.tell();
  if (refusals === undefined) return;
  const more = refusals.untold === 0 ? '' : ` (and ${refusals.untold} more that were not logged)`;
  const message = `a request was refused with ${status}: ${detail}${more}`;
  emit({ kind: 'admin', level: 'warn', action: 'refused', peer: peerName(peer), message });
}

/** Which programs can connect to the listener. */
export type Reach =
  /** Those of the owner of a Unix socket. */
  | 'owner'
  /** All on this machine, its browsers included. */
  | 'machine'
  /** Those on other machines too. */
  | 'network';

/** The rules of a decision. */
export interface AdmissionRules {
  readonly reach: Reach;
  /** Names, in lower case, that the listener may be called by besides addresses and `localhost`. */
  readonly hosts: ReadonlySet<string>;
  /** Whether a token is configured. */
  readonly hasToken: boolean;
}

/** The parts of a request that say where it comes from. */
interface Caller {
  /** The authority of the request: host and port; empty where it names none. */
  readonly authority: string;
  readonly origin: string | undefined;
  /** Sec-Fetch-Site: how the page that sent the request is related to this server, by its browser. */
  readonly fetchSite: string | undefined;
}

/** Why a request is refused. */
interface Refusal {
  readonly kind: 'refused';
  readonly status: number;
  readonly detail: string;
  readonly fields: readonly Field[];
}

/** The decision on a request. `check`: it is admitted if its token is the right one. */
type AdmissionDecision = { readonly kind: 'admitted' } | { readonly kind: 'check'; readonly token: string } | Refusal;

const realm = 'Rangeway admin';

/**
 * Refuses requests that a foreign web page may make a browser on this machine send: requests under a foreign name, which an
 * attacker may have given our address (DNS rebinding), and requests that state another origin (RFC 6454 §7.3). Undefined for all
 * others. On a Unix socket (`owner`) any name will do, because browsers do not use such sockets.
 */
export function refuseForeignCaller(
  { authority, origin, fetchSite }: Caller,
  { reach, hosts }: Pick<AdmissionRules, 'reach' | 'hosts'>,
): Refusal | undefined {
  if (reach !== 'owner' && !isOurName(authority, hosts)) {
    return refused(421, 'The Host is not a name of this listener; use its address, localhost or one of "admin.hosts".');
  }
  const isForeign = origin !== undefined && !isOwnOrigin(origin, authority);
  if (isForeign || fetchSite === 'cross-site' || fetchSite === 'same-site') {
    return refused(403, 'Requests from web pages of other origins are refused.');
  }
  return undefined;
}

/** Decides whether a request is admitted to an endpoint with this access, as far as possible without a look at its token. */
export function decideAdmission(
  access: EndpointAccess,
  credentials: Credentials | undefined,
  { reach, hasToken }: Omit<AdmissionRules, 'hosts'>,
): AdmissionDecision {
  if (access === 'anyone' || (access === 'watcher' && reach !== 'network')) return { kind: 'admitted' };
  if (!hasToken) {
    if (reach === 'owner') return { kind: 'admitted' };
    return refused(403, 'This needs a token, and none is configured: set "admin.token", or listen on a Unix socket.');
  }
  if (credentials?.scheme !== 'bearer') return refused(401, 'This needs a token.', [bearerChallenge('')]);
  if (credentials.token68 === '') return wrongToken();
  return { kind: 'check', token: credentials.token68 };
}

/** The refusal of a wrong token (RFC 6750 §3.1). */
function wrongToken(): Refusal {
  return refused(401, 'This is not the token.', [bearerChallenge(', error="invalid_token"')]);
}

/** RFC 6750 §3: without a token in the request the challenge states no error. */
export function bearerChallenge(error: string): Field {
  return ['www-authenticate', `Bearer realm="${realm}"${error}`];
}

function refused(status: number, detail: string, fields: readonly Field[] = []): Refusal {
  return { kind: 'refused', status, detail, fields };
}

/** Addresses and `localhost` (RFC 6761 §6.3) cannot be foreign names. No browser leaves out the Host. */
function isOurName(authority: string, hosts: ReadonlySet<string>): boolean {
  if (authority === '') return true;
  const host = authority
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return host === 'localhost' || isAddress(host) || hosts.has(host);
}

/** The number of wrong tokens that one client may send at once, and the time after which it may send one more, in milliseconds. */
const burst = 20;
const costMs = 1000;

/** The number of refusals, of all clients, that are logged at once. One more is logged after each `costMs`. */
const toldBurst = 10;

const maxClients = 10_000;

/**
 * Wrong tokens by client. A client that has sent too many is refused for a while, even if its next token is the right one:
 * otherwise guesses would succeed all the same.
 */
export class Guesses {
  readonly #wrong: LeakyBuckets;
  readonly #told: LeakyBuckets;
  #untold = 0;

  /** `now` returns milliseconds that never go back. */
  constructor(now: () => number) {
    this.#wrong = new LeakyBuckets({ maxNames: maxClients, now });
    this.#told = new LeakyBuckets({ maxNames: 1, now });
  }

  /** Returns how long a client has to wait until its next token is checked, in milliseconds; 0 where it need not wait. */
  waitMs(address: string): number {
    return Math.max(0, this.#wrong.of(clientName(address)) - (burst - 1) * costMs);
  }

  /** Counts a wrong token. */
  note(address: string): void {
    this.#wrong.add(clientName(address), costMs);
  }

  /** Returns how many refusals were not logged before this one; undefined where this one is not to be logged either. */
  tell(): { readonly untold: number } | undefined {
    if (this.#told.of('') > (toldBurst - 1) * costMs) {
      this.#untold += 1;
      return undefined;
    }
    this.#told.add('', costMs);
    const untold = this.#untold;
    this.#untold = 0;
    return { untold };
  }
}

/** Returns the address of a peer; `unix` for a connection over a Unix socket. */
export function peerName({ address }: Peer): string {
  return address === '' ? 'unix' : address;
}
