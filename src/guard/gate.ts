/**
 * The gate of a route: decides which requests are admitted, how much they may use, and which fields their responses get. Also the
 * gate for Rangeway's own requests, such as those that warm the store.
 */

import type { JourneyAllowance } from '../delivery/journey.ts';
import { type ErrorPages, presentProblem } from '../delivery/problem.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { Routed } from '../routing/inquiry.ts';
import { type Access, withNoStore } from './access/access.ts';
import type { Client } from './client.ts';
import { type Presentation, plainPresentation } from './fields/presentation.ts';
import {
  type Allowance,
  type Allowances,
  createCountedDelivery,
  type HitAllowances,
  type Loan,
  type TunnelTerms,
} from './limits/allowances.ts';
import { type PurgeRules, type RequestedPurge, selectPurge } from './purge.ts';

/** The decision of a gate about a request. A refusal is thrown, as `ProxyError`. */
export type Admission =
  /** Admitted, without the credentials that were for Rangeway alone. */
  | { readonly kind: 'passed'; readonly routed: Routed; readonly request: ProxyRequest; readonly allowance: Allowance }
  /** Answered by the gate: a preflight request (CORS). */
  | { readonly kind: 'answered'; readonly response: ProxyResponse };

/** The gate for hits. It decides in the same tick, by the fields of a plain head alone. */
export interface HitGate {
  /** Checks a client; returns the user of its credentials, or undefined where `admit` must decide. Absent where every client passes. */
  readonly pass?:
    | ((client: Pick<Client, 'address'>, credentials: Fields) => { readonly user: string | undefined } | undefined)
    | undefined;
  /** Counts the request; returns the fields that tell the client its limits, or undefined where `admit` must refuse the request. */
  readonly count?: ((client: string) => Fields | undefined) | undefined;
  /** Returns the fields of a response as the client gets them. Absent where the fields do not change. */
  readonly present?:
    | ((request: Pick<ProxyRequest, 'method' | 'scheme' | 'fields'>, fields: Fields) => Fields)
    | undefined;
  /** Checks whether `present` returns other fields for this value of Origin than for a request without Origin. */
  readonly isSingledOut: (origin: string) => boolean;
  /** Credits delivered bytes against the time debt of a client: see `OriginShare`. Undefined where bytes are not counted. */
  readonly share: HitAllowances['share'];
}

/** The gate of a route. */
export interface Gate {
  /** Absent where hits must go through `admit` and `present`, as other requests do. */
  readonly hits?: HitGate | undefined;
  admit(request: ProxyRequest, client: Client, routed: Routed, note: GateNotes): Admission | Promise<Admission>;
  /** As `admit`, for a request that is only explained: the access rules apply, the limits do not. */
  examine(request: ProxyRequest, client: Client, routed: Routed): Promise<Admission>;
  /** Returns what a request may use here that does not enter this gate, such as one that another worker has admitted. */
  lend(routed: Routed, client: string): Loan;
  /**
   * Returns the purge that an admitted request orders; undefined where it is for the cache or the origin. Throws `ProxyError`.
   * Absent where no request purges.
   */
  readonly selectPurge?:
    | ((request: ProxyRequest, client: Client, routed: Routed) => RequestedPurge | undefined)
    | undefined;
  /** Returns a target without its signature, as the cache and the origin get it. Absent where they get targets as they are. */
  readonly withoutSignature?: ((target: string) => string) | undefined;
  /** Returns the response as this client gets it, whether it is the origin's or our own. */
  present(request: ProxyRequest, response: ProxyResponse): ProxyResponse;
  /** Returns the fields of an interim response as the client gets them. */
  presentInterim(fields: Fields): Fields;
}

/** The notes of `admit`. They stay also where it refuses the request. */
export interface GateNotes {
  /** The user that the client's credentials belong to. */
  user: string | undefined;
  /** The limits of the request; undefined until it is counted against them. */
  allowance: JourneyAllowance | undefined;
}

/** The parts of a gate. */
export interface GateParts {
  readonly access: Access;
  readonly allowances: Allowances;
  readonly presentation: Presentation;
  /** The rules of PURGE requests; without it they are like any other request. */
  readonly purge?: PurgeRules | undefined;
  /** The pages that replace our own errors; none without it. */
  readonly errorPages?: ErrorPages;
}

/**
 * Creates a gate. It checks the address first, then answers preflight requests, which carry no credentials. Limits come before
 * credentials, so that they slow down clients that guess credentials. Rules that the route does not have are not called.
 */
export function createGate({ access, allowances, presentation, purge, errorPages }: GateParts): Gate {
  const fieldRules = presentation === plainPresentation ? undefined : presentation;
  return {
    hits: createHitGate({ access, allowances, presentation }),
    admit(request, client, routed, notes) {
      if (!access.isOpen) access.checkAddress(client);
      const answered = fieldRules?.answerPreflight(request);
      if (answered !== undefined) return { kind: 'answered', response: answered };
      const allowance = allowances.enter(request, client, routed);
      notes.allowance = allowance;
      if (access.isOpen) return { kind: 'passed', routed, request: allowance.request, allowance };
      const passed = access.checkCredentials(allowance.request, routed, client);
      if (!(passed instanceof Promise)) return pass(passed, allowance, notes);
      return passed.then((later) => pass(later, allowance, notes));
    },
    async examine(request, client, routed) {
      access.checkAddress(client);
      const answered = presentation.answerPreflight(request);
      if (answered !== undefined) return { kind: 'answered', response: answered };
      const passed = await access.checkCredentials(request, routed, client);
      return { kind: 'passed', ...passed, allowance: new NoAllowance(passed.request, passed.routed.route.origin) };
    },
    lend: (routed, client) => allowances.lend(routed, client),
    selectPurge: purge && ((request, client, routed) => selectPurge(request, client, routed, purge)),
    withoutSignature: access.withoutSignature,
    present(request, response) {
      const isOurs = response.problem !== undefined;
      const formed = isOurs ? presentProblem(request, response, errorPages) : response;
      const presented = fieldRules?.present(request, formed) ?? formed;
      // After the operator's rules for fields: these do not decide which caches may store a response.
      const kept = isOurs ? withNoStore(presented) : presented;
      return access.isOpen ? kept : access.present(kept);
    },
    presentInterim: (fields) => presentation.presentInterim(fields),
  };
}

/** Undefined where a rule needs more than a plain head, or changes fields that differ from hit to hit. */
function createHitGate({ access, allowances, presentation }: GateParts): HitGate | undefined {
  if (access.passAtOnce === undefined || allowances.hits === undefined || !presentation.leaves(changingFields))
    return undefined;
  const isPlain = access.isOpen && presentation === plainPresentation;
  return {
    pass: access.isOpen ? undefined : access.passAtOnce,
    count: allowances.hits.count,
    present: isPlain
      ? undefined
      : (request, fields) =>
          access.present(presentation.present(request, { status: 200, fields, body: { kind: 'none' } })).fields,
    isSingledOut: (origin) => presentation.isSingledOut(origin),
    share: allowances.hits.share,
  };
}

/** Fields that a hit gets after its response was presented. */
const changingFields = ['age', 'cache-status', 'content-range', 'ratelimit', 'ratelimit-policy'];

function pass(
  { request, routed, user }: Awaited<ReturnType<Access['checkCredentials']>>,
  allowance: Allowance,
  notes: GateNotes,
): Admission {
  notes.user = user;
  return { kind: 'passed', routed, request, allowance };
}

/** The allowance of a request that is only explained: it has no limits. */
class NoAllowance implements Allowance {
  readonly request: ProxyRequest;
  readonly origin: Allowance['origin'];
  readonly client = '';

  constructor(request: ProxyRequest, origin: Allowance['origin']) {
    this.request = request;
    this.origin = origin;
  }

  openTunnel(): TunnelTerms {
    return { idleTimeoutMs: 0 };
  }

  present(response: ProxyResponse): ProxyResponse {
    return response;
  }

  leave(): void {}
}

/**
 * Creates a gate for Rangeway's own requests, beside the gate of a route. It checks no credentials and counts no requests, because
 * it gets no requests from outside. The origin is used within the limits for all clients together. `name` makes the name of its
 * client unique; no other client has such a name (`clientName`).
 */
export function createInternalGate(gate: Pick<Gate, 'lend'>, name: string): Gate {
  const client = `inside ${name}`;
  return {
    admit(request, _client, routed, notes) {
      const allowance = createInsideAllowance(request, client, gate.lend(routed, client));
      notes.allowance = allowance;
      return { kind: 'passed', routed, request, allowance };
    },
    examine: () => Promise.reject(new Error('a request of our own is not explained')),
    lend: (routed) => gate.lend(routed, client),
    present: (_request, response) => response,
    presentInterim: (fields) => fields,
  };
}

/** A stream is paid back while it is read, any other body at the end. */
function createInsideAllowance(request: ProxyRequest, client: string, { origin, repay }: Loan): Allowance {
  let isPaid = false;
  return {
    request,
    origin,
    client,
    openTunnel: () => ({ idleTimeoutMs: 0 }),
    present(response) {
      const { body } = response;
      if (body.kind !== 'stream') return response;
      isPaid = true;
      return { ...response, body: { ...body, stream: createCountedDelivery(body.stream, repay) } };
    },
    leave({ bytesSent }) {
      if (!isPaid) repay(bytesSent);
    },
  };
}
