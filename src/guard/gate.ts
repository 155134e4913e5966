/**
 * What stands before a route: which requests may pass, how much they may take, and which fields their responses get. Also the gate
 * for Rangeway's own requests, such as those that warm the store.
 */

import type { JourneyAllowance } from '../delivery/journey.ts';
import { type ErrorPages, presentProblem } from '../delivery/problem.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { Routed } from '../routing/inquiry.ts';
import { type Access, forOneRequest } from './access/access.ts';
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

/** What a gate says to a request. Refusals are thrown, as `ProxyError`. */
export type Admission =
  /** It goes on, without what was for us alone. */
  | { readonly kind: 'passed'; readonly routed: Routed; readonly request: ProxyRequest; readonly allowance: Allowance }
  /** It goes no further: a preflight request (CORS). */
  | { readonly kind: 'answered'; readonly response: ProxyResponse };

/** What a gate does with hits, where it decides in the same tick and by the fields of a plain head alone. */
export interface HitGate {
  /** The user that the client's credentials belong to, where it may pass; undefined where `admit` has to decide. Absent where every client passes. */
  readonly pass?:
    | ((client: Pick<Client, 'address'>, credentials: Fields) => { readonly user: string | undefined } | undefined)
    | undefined;
  /** Counts the request, and gives the fields that tell the client of its limits; undefined where `admit` has to refuse it. */
  readonly count?: ((client: string) => Fields | undefined) | undefined;
  /** The fields of a response as the client is to get them. Absent where they stay as they are. */
  readonly present?:
    | ((request: Pick<ProxyRequest, 'method' | 'scheme' | 'fields'>, fields: Fields) => Fields)
    | undefined;
  /** Whether `present` gives a page of this web origin something else than a client that names none. */
  readonly isSingledOut: (origin: string) => boolean;
  /** Notes what clients are given, where they may owe something: see `OriginShare`. */
  readonly share: HitAllowances['share'];
}

/** One gate. */
export interface Gate {
  /** Absent where hits have to be admitted and presented as other requests are. */
  readonly hits?: HitGate | undefined;
  admit(request: ProxyRequest, client: Client, routed: Routed, note: GateNotes): Admission | Promise<Admission>;
  /** As `admit`, for a request that is only to be explained: the same rules of access, and no limit. */
  examine(request: ProxyRequest, client: Client, routed: Routed): Promise<Admission>;
  /** What a request may take here that another process has let in. */
  lend(routed: Routed, client: string): Loan;
  /** What a request that was let in is to purge; undefined where it is for the cache or the origin. Throws `ProxyError`. */
  selectPurge(request: ProxyRequest, client: Client, routed: Routed): RequestedPurge | undefined;
  /** The response as this client is to get it, whoever made it. */
  present(request: ProxyRequest, response: ProxyResponse): ProxyResponse;
  /** The fields of an interim response as the client is to get them. */
  presentInterim(fields: Fields): Fields;
}

/** What a gate tells on its way, whatever comes of it. */
export interface GateNotes {
  /** The name that the client's credentials belong to. */
  user: string | undefined;
  /** What limits the request, once it was let in. */
  allowance: JourneyAllowance | undefined;
}

/** What a gate is made of. */
export interface GateParts {
  readonly access: Access;
  readonly allowances: Allowances;
  readonly presentation: Presentation;
  /** Who may purge by requests; nobody without it: such requests are like any other. */
  readonly purge?: PurgeRules | undefined;
  /** What is sent in place of our own errors; nothing without it. */
  readonly errorPages?: ErrorPages;
}

/**
 * Creates a gate. Addresses come first, then preflight requests, which carry no credentials; then limits, which slow down
 * those who guess credentials; then these.
 */
export function createGate({ access, allowances, presentation, purge, errorPages }: GateParts): Gate {
  return {
    hits: createHitGate({ access, allowances, presentation }),
    admit(request, client, routed, notes) {
      access.checkAddress(client);
      const answered = presentation.answerPreflight(request);
      if (answered !== undefined) return { kind: 'answered', response: answered };
      const allowance = allowances.enter(request, client, routed);
      notes.allowance = allowance;
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
    selectPurge: (request, client, routed) => selectPurge(request, client, routed, purge),
    present(request, response) {
      const presented = presentation.present(request, presentProblem(request, response, errorPages));
      // The operator's rules for fields have the last word on all but who may keep a response.
      return access.present(presented.problem === undefined ? presented : forOneRequest(presented));
    },
    presentInterim: (fields) => presentation.presentInterim(fields),
  };
}

/** Undefined where a rule needs more than a plain head, or has a say in fields that differ from hit to hit. */
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

/** Fields that a hit is given after its response was presented. */
const changingFields = ['age', 'cache-status', 'content-range', 'ratelimit', 'ratelimit-policy'];

function pass(
  { request, routed, user }: Awaited<ReturnType<Access['checkCredentials']>>,
  allowance: Allowance,
  notes: GateNotes,
): Admission {
  notes.user = user;
  return { kind: 'passed', routed, request, allowance };
}

/** For a request that takes nothing. */
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
 * Creates a gate beside that of a route. It asks for no credentials and counts no requests, for nobody from outside comes to
 * it; and the origin is used within the limits that hold for all clients together. `name` tells its client apart from others;
 * clients have none like it (`clientName`).
 */
export function createInsideGate(gate: Pick<Gate, 'lend'>, name: string): Gate {
  const client = `inside ${name}`;
  return {
    admit(request, _client, routed, notes) {
      const allowance = createInsideAllowance(request, client, gate.lend(routed, client));
      notes.allowance = allowance;
      return { kind: 'passed', routed, request, allowance };
    },
    examine: () => Promise.reject(new Error('a request of our own is not explained')),
    lend: (routed) => gate.lend(routed, client),
    selectPurge: () => undefined,
    present: (_request, response) => response,
    presentInterim: (fields) => fields,
  };
}

/** What is read is paid for while it is read, and what comes in one piece at the end. */
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
