/** Who may have what of the admin listener. */

import type { Credentials } from '../guard/authorization.ts';
import { isAddress } from '../guard/peers.ts';
import type { Field } from '../http/fields.ts';
import type { Endpoint } from './endpoint.ts';

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
export interface Caller {
  /** The authority that it names: host and port; empty where it names none. */
  readonly authority: string;
  readonly origin: string | undefined;
  /** What browsers tell of who has made them ask (Sec-Fetch-Site). */
  readonly fetchSite: string | undefined;
}

/** Why a request goes no further. */
export interface Refusal {
  readonly kind: 'refused';
  readonly status: number;
  readonly detail: string;
  readonly fields: readonly Field[];
}

/** What becomes of it. `check`: the token that it shows has to be the right one. */
export type AdmissionDecision =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'check'; readonly token: string }
  | Refusal;

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
export function wrongToken(): Refusal {
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
