/** Lets those pass who may, and tells of the others: not of each one, because a flood of them must not fill the log. */

import { problemResponse } from '../delivery/problem.ts';
import { readAuthorization } from '../guard/authorization.ts';
import { fieldValue } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import type { Emit } from '../telemetry/events.ts';
import { type AdmissionRules, decideAdmission, type Refusal, strangeCaller, wrongToken } from './admission.ts';
import { peerName } from './caller-name.ts';
import type { Endpoint } from './endpoint.ts';
import type { Guesses } from './guesses.ts';

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
