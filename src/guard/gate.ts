/** What stands before a route: who may pass, and what its responses are given on their way out. */

import type { ErrorPages } from '../delivery/error-page.ts';
import type { JourneyAllowance } from '../delivery/journey.ts';
import { presentProblem } from '../delivery/problem-form.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { Routed } from '../routing/inquiry.ts';
import type { Access } from './access.ts';
import type { Allowance, Allowances, Loan, TunnelTerms } from './allowances.ts';
import type { Client } from './client.ts';
import { type Presentation, plainPresentation } from './presentation.ts';
import { forOneRequest } from './privacy.ts';
import { type PurgeRules, type RequestedPurge, selectPurge } from './purge.ts';

/** What a gate says to a request. Refusals are thrown, as `ProxyError`. */
export type Admission =
  /** It goes on, without what was for us alone. */
  | { readonly kind: 'passed'; readonly routed: Routed; readonly request: ProxyRequest; readonly allowance: Allowance }
  /** It goes no further: a preflight request (CORS). */
  | { readonly kind: 'answered'; readonly response: ProxyResponse };

/** What hits are subject to at a gate that lets every request pass as it is. */
export interface OpenGate {
  /** Whether anything is owed, so that it has to be noted what clients are given. */
  readonly isOwed: boolean;
  /** Takes note of bytes that a client, by its name in the limits, was given. */
  repay(client: string, bytes: number): void;
}

/** One gate. */
export interface Gate {
  /** Set where the gate looks at no request of a hit, and changes no response to it. */
  readonly open?: OpenGate | undefined;
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
  const isOpen = access.isOpen && presentation === plainPresentation;
  return {
    open: isOpen ? allowances.open : undefined,
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
