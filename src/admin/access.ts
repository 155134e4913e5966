/**
 * Decides who may use which endpoint of the admin listener. Guesses of a token are limited, and refusals are logged a few at a
 * time, so that a flood of them cannot fill the log.
 */

import { problemResponse } from '../delivery/problem.ts';
import { type Credentials, readAuthorization } from '../guard/access/authorization.ts';
import { clientName, isAddress } from '../guard/client.ts';
import { LeakyBuckets } from '../guard/limits/rate-limit.ts';
import { type Field, fieldValue } from '../http/fields.ts';
import type { Peer, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Endpoint } from './endpoint.ts';

/** What it decides by. */
export interface AdminGateContext {
  readonly emit: Emit;
  readonly rules: Omit<AdmissionRules, 'hasToken'>;
  /** Whether a text is the token; undefined where none is configured. */
  readonly isToken: ((text: string) => boolean) | undefined;
  readonly guesses: Guesses;
}

/** The response to a request that may not have what needs this access; undefined where it may. Throws `ProxyError`. */
export function refuseStranger(
  request: ProxyRequest,
  access: Endpoint['access'],
  context: AdminGateContext,
): ProxyResponse | undefined {
  const refusal = findRefusal(request, access, context);
  if (refusal === undefined) return undefined;
  const { status, detail, fields } = refusal;
  tell(request, refusal, context);
  return problemResponse(status, detail, fields);
}

function findRefusal(
  { authority, fields, peer }: ProxyRequest,
  access: Endpoint['access'],
  { rules, isToken, guesses }: AdminGateContext,
): Refusal | undefined {
  const caller = { authority, origin: fieldValue(fields, 'origin'), fetchSite: fieldValue(fields, 'sec-fetch-site') };
  const strange = strangeCaller(caller, rules);
  if (strange !== undefined) return strange;
  const decision = decideAdmission(access, readAuthorization(fields), { ...rules, hasToken: isToken !== undefined });
  if (decision.kind === 'admitted') return undefined;
  if (decision.kind === 'refused') return decision;
  const waitMs = guesses.waitMs(peer.address);
  if (waitMs > 0)
    return { kind: 'refused', status: 429, detail: 'Too many wrong tokens.', fields: [retryAfter(waitMs)] };
  if (isToken?.(decision.token) === true) return undefined;
  guesses.note(peer.address);
  return wrongToken();
}

function tell({ peer }: ProxyRequest, { status, detail }: Refusal, { guesses, emit }: AdminGateContext): void {
  const told = guesses.tell();
  if (told === undefined) return;
  const more = told.untold === 0 ? '' : ` (and ${told.untold} more that are not told of)`;
  const message = `a request was refused with ${status}: ${detail}${more}`;
  emit({ kind: 'admin', level: 'warn', action: 'refused', peer: peerName(peer), message });
}

/** Where the listener is: who can connect at all. */
export type Reach =
  /** Those who may open a Unix socket: its owner. */
  | 'owner'
  /** Everything that runs on this machine, its browsers included. */
  | 'machine'
  /** Others too. */
  | 'network';

/** By what it is decided. */
export interface AdmissionRules {
  readonly reach: Reach;
  /** Names, in lower case, that the listener may be called by besides addresses and `localhost`. */
  readonly hosts: ReadonlySet<string>;
  /** Whether there is a token at all. */
  readonly hasToken: boolean;
}

/** What is looked at of a request. */
interface Caller {
  /** The authority that it names: host and port; empty where it names none. */
  readonly authority: string;
  readonly origin: string | undefined;
  /** What browsers tell of who has made them ask (Sec-Fetch-Site). */
  readonly fetchSite: string | undefined;
}

/** Why a request goes no further. */
interface Refusal {
  readonly kind: 'refused';
  readonly status: number;
  readonly detail: string;
  readonly fields: readonly Field[];
}

/** What becomes of it. `check`: the token that it shows has to be the right one. */
type AdmissionDecision = { readonly kind: 'admitted' } | { readonly kind: 'check'; readonly token: string } | Refusal;

const realm = 'Rangeway admin';

/**
 * Refuses what a web page of elsewhere may have a browser on this machine ask: requests under a name that is not ours, which
 * somebody may have given our address (DNS rebinding), and requests that say that they come from another origin (RFC 6454
 * §7.3). Undefined for all others. Browsers do not speak through Unix sockets.
 */
export function strangeCaller(
  { authority, origin, fetchSite }: Caller,
  { reach, hosts }: Pick<AdmissionRules, 'reach' | 'hosts'>,
): Refusal | undefined {
  if (reach !== 'owner' && !isOurName(authority, hosts)) {
    return refused(421, 'This is not called by this name; use its address, localhost, or one of "admin.hosts".');
  }
  const isForeign = origin !== undefined && origin.toLowerCase() !== `http://${authority.toLowerCase()}`;
  if (isForeign || fetchSite === 'cross-site' || fetchSite === 'same-site') {
    return refused(403, 'Web pages of other origins may not have this.');
  }
  return undefined;
}

/** Whether a request may have what needs this access, as far as that can be told without looking at its token. */
export function decideAdmission(
  access: Endpoint['access'],
  credentials: Credentials | undefined,
  { reach, hasToken }: Omit<AdmissionRules, 'hosts'>,
): AdmissionDecision {
  if (access === 'anyone' || (access === 'watcher' && reach !== 'network')) return { kind: 'admitted' };
  if (!hasToken) {
    if (reach === 'owner') return { kind: 'admitted' };
    return refused(403, 'This needs a token, and none is configured: set "admin.token", or listen on a Unix socket.');
  }
  if (credentials?.scheme !== 'bearer') return refused(401, 'This needs a token.', [challenge('')]);
  if (credentials.token68 === '') return wrongToken();
  return { kind: 'check', token: credentials.token68 };
}

/** The refusal of a token that is another one (RFC 6750 §3.1). */
function wrongToken(): Refusal {
  return refused(401, 'This is not the token.', [challenge(', error="invalid_token"')]);
}

/** RFC 6750 §3: a request that shows no token is told of no error. */
function challenge(error: string): Field {
  return ['www-authenticate', `Bearer realm="${realm}"${error}`];
}

function refused(status: number, detail: string, fields: readonly Field[] = []): Refusal {
  return { kind: 'refused', status, detail, fields };
}

/** Only addresses and `localhost` (RFC 6761 §6.3) cannot be somebody else's names. No browser leaves the Host out. */
function isOurName(authority: string, hosts: ReadonlySet<string>): boolean {
  if (authority === '') return true;
  const host = authority
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return host === 'localhost' || isAddress(host) || hosts.has(host);
}

/** So many wrong tokens at once, and one more each second, from one client. */
const burst = 20;
const costMs = 1000;

/** So many refusals are told at once, and one more each second, of all clients. */
const toldBurst = 10;

const maxClients = 10_000;

/**
 * Wrong tokens, by who has shown them. Who has shown too many is not listened to for a while: not even when the next one is
 * right, because that is what somebody who guesses would find out.
 */
export class Guesses {
  readonly #wrong: LeakyBuckets;
  readonly #told: LeakyBuckets;
  #untold = 0;

  /** `now` gives milliseconds that never go back. */
  constructor(now: () => number) {
    this.#wrong = new LeakyBuckets({ maxNames: maxClients, now });
    this.#told = new LeakyBuckets({ maxNames: 1, now });
  }

  /** How long a client has to wait until a token of its is looked at again, in milliseconds; 0 where it need not. */
  waitMs(address: string): number {
    return Math.max(0, this.#wrong.of(clientName(address)) - (burst - 1) * costMs);
  }

  /** Counts a wrong token. */
  note(address: string): void {
    this.#wrong.add(clientName(address), costMs);
  }

  /** Whether a refusal is to be told now: then how many were not told before it. Undefined where it is not. */
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

/** The address, or `unix` for who has connected to a Unix socket. */
export function peerName({ address }: Peer): string {
  return address === '' ? 'unix' : address;
}
