/** Whether the origins can be reached, and what they answer. */

import { duration } from '../text-sections.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** Facts of one origin. */
export interface OriginFacts {
  /** The option that names it, such as `routes[0].origin`. */
  readonly option: string;
  readonly url: string;
  /** Whether requests to it are signed. */
  readonly isSigned: boolean;
  /** The Host that it sees: `origin.host` as it works out. */
  readonly host: string;
  /** The addresses of its name, and those of them that refuse connections; none for a Unix socket. */
  readonly addresses: readonly string[];
  readonly deadAddresses: readonly string[];
  /** How long a connection took, with TLS; undefined where there was none. */
  readonly connectMs: number | undefined;
  readonly outcome: OriginOutcome;
}

/** How far the check of an origin came. */
export type OriginOutcome =
  /** Its name is unknown, it accepts no connection, or the handshake of TLS fails. */
  | { readonly kind: 'name' | 'connection' | 'tls'; readonly code: string; readonly reason: string }
  /** It accepts connections, but a request gets no response. */
  | { readonly kind: 'no-answer'; readonly reason: string }
  | {
      readonly kind: 'answer';
      readonly target: string;
      readonly status: number;
      readonly answerMs: number;
      /** Whether it sends parts; undefined where that could not be seen at this path. */
      readonly hasRanges: boolean | undefined;
      /** How far its clock (Date) is ahead of ours, in milliseconds; undefined without Date. */
      readonly clockAheadMs: number | undefined;
    };

/** Returns the findings about origins. Undefined: no origin was given. */
export function judgeOrigins(facts: readonly OriginFacts[] | undefined): readonly Diagnosis[] {
  if (facts === undefined) {
    const what = 'no origin was given, so none was asked';
    return [found('note', 'origin', what, 'rangeway doctor ORIGIN, or rangeway doctor -c FILE')];
  }
  return facts.flatMap((each) => [judgeReach(each), ...judgeClockOf(each)]);
}

function judgeReach(facts: OriginFacts): Diagnosis {
  const { option, url, outcome } = facts;
  const where = `${option} (${url})`;
  switch (outcome.kind) {
    case 'name':
      return found(
        'problem',
        'origin',
        `its name cannot be looked up: ${outcome.reason}`,
        adviceOnName(outcome.code),
        where,
      );
    case 'connection':
      return found(
        'problem',
        'origin',
        `it accepts no connection: ${outcome.reason}`,
        adviceOnConnection(outcome.code, url),
        where,
      );
    case 'tls':
      return found('problem', 'origin', `TLS fails: ${outcome.reason}`, adviceOnTls(outcome.code), where);
    case 'no-answer':
      return found('problem', 'origin', outcome.reason, `rangeway probe ${url} tells more`, where);
    case 'answer':
      return judgeAnswer(facts, outcome, where);
  }
}

function adviceOnName(code: string): string {
  return code === 'EAI_AGAIN'
    ? 'check the network and /etc/resolv.conf: no name server answers'
    : 'correct the name in the URL, or add it to /etc/hosts';
}

function adviceOnConnection(code: string, url: string): string {
  if (url.startsWith('unix:')) {
    return code === 'EACCES'
      ? 'give the user of the server the right to write to the socket'
      : 'start the server that has this socket';
  }
  switch (code) {
    case 'ECONNREFUSED':
      return 'start it there, or correct the port of the URL';
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return 'check the route to it and the firewalls in between';
    default:
      return 'check that it runs, and that this machine may connect to it';
  }
}

function adviceOnTls(code: string): string {
  if (/SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/.test(code)) {
    return 'name the file with its authority in origin.caFile; or, where the network can be trusted, origin.insecureTls (--insecure-tls)';
  }
  if (/ALTNAME/.test(code)) return 'use a name of its certificate in the URL';
  if (/EXPIRED|NOT_YET/.test(code)) return 'have its certificate renewed; check the clock of this machine: timedatectl';
  return 'check that TLS is spoken on this port: http:// in place of https://?';
}

function judgeAnswer(
  { addresses, deadAddresses, connectMs, isSigned, host }: OriginFacts,
  outcome: Extract<OriginOutcome, { kind: 'answer' }>,
  where: string,
): Diagnosis {
  const { status, target, answerMs, hasRanges } = outcome;
  const connected = connectMs === undefined ? '' : `connected in ${latency(connectMs)}, `;
  const answered = `${connected}${status} for ${target} in ${latency(answerMs)}`;
  if (status >= 500) {
    return found('warning', 'origin', `${answered}: it fails`, 'look into its log; is it the right path?', where);
  }
  if (deadAddresses.length > 0) {
    const what = `${answered}; of its addresses ${addresses.join(', ')} these accept no connection: ${deadAddresses.join(', ')}`;
    return found('note', 'origin', what, 'use the address that works in the URL, or correct the name', where);
  }
  if (isSigned && (status === 401 || status === 403)) {
    const what = `${answered}: the key may not read this path, or the signature is refused`;
    const advice = 'ask Rangeway for an object that exists; where that fails too, check region, key and clock';
    return found('note', 'origin', what, advice, where);
  }
  if (status === 401 || status === 403) {
    const what = `${answered}: it asks for credentials`;
    return found('note', 'origin', what, 'fields.toOrigin.setSecret sends them, if clients do not', where);
  }
  const ranges = hasRanges === undefined ? '' : hasRanges ? ', sends ranges' : ', sends whole files only';
  return fine('origin', `${answered}${ranges}; sees ${seenHost(host)}`, where);
}

function seenHost(host: string): string {
  if (host === 'keep') return 'the Host of the client';
  return host === 'origin' ? 'its own name as Host' : `${host} as Host`;
}

function latency(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : duration(ms);
}

/** A `Date` has whole seconds. */
const exactMs = 2_000;
const farMs = 30_000;

function judgeClockOf({ option, url, outcome }: OriginFacts): Diagnosis[] {
  if (outcome.kind !== 'answer' || outcome.clockAheadMs === undefined) return [];
  const { clockAheadMs: ms } = outcome;
  const where = `${option} (${url})`;
  if (Math.abs(ms) <= exactMs) return [];
  const what =
    ms < 0
      ? `its clock is ${duration(-ms)} behind that of this machine: what it sends looks older by that, and is stale sooner`
      : `its clock is ${duration(ms)} ahead of that of this machine: one of the two is wrong`;
  const level = Math.abs(ms) > farMs ? 'warning' : 'note';
  return [found(level, 'clock', what, 'timedatectl set-ntp true, on both machines', where)];
}
