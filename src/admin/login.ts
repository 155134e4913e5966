/** Logs browsers in and out: a token or a one-time code becomes a session, which a cookie proves. */

import { problemResponse } from '../delivery/problem.ts';
import { sessionCookie } from '../guard/fields/forwarding.ts';
import type { Field } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import { type AdminGateContext, bearerChallenge, peerName, refuseForgery, sessionOf, tellRefusal } from './access.ts';
import type { ActivityFeed } from './activity.ts';
import { sessionLastsMs } from './sessions.ts';

/** What a browser logs in with: one of both. */
export interface LoginOrder {
  readonly token?: string | undefined;
  readonly code?: string | undefined;
}

/** Answers a login. Wrong tokens and codes count together as guesses. */
export function logIn(order: LoginOrder, request: ProxyRequest, context: AdminGateContext): ProxyResponse {
  const { guesses, isToken, sessions, emit } = context;
  const { peer } = request;
  const refuse = (status: number, detail: string, fields: readonly Field[] = []): ProxyResponse => {
    tellRefusal(request, { status, detail }, context);
    return problemResponse(status, detail, fields);
  };
  if (order.code === undefined && isToken === undefined) {
    return refuse(403, 'No token is configured: run "rangeway dashboard" on the machine of the server.');
  }
  const waitMs = guesses.waitMs(peer.address);
  if (waitMs > 0) return refuse(429, 'Too many wrong tokens.', [retryAfter(waitMs)]);
  const isRight = order.code === undefined ? isToken?.(order.token ?? '') === true : sessions.redeem(order.code);
  if (!isRight) {
    guesses.note(peer.address);
    const detail = order.code === undefined ? 'This is not the token.' : 'This code is wrong, used or too old.';
    return refuse(401, detail, [bearerChallenge('')]);
  }
  const by = order.code === undefined ? 'the token' : 'a one-time code';
  emit({
    kind: 'admin',
    level: 'info',
    action: 'login',
    peer: peerName(peer),
    message: `a browser logged in with ${by}`,
  });
  return withCookie(sessions.open(), sessionLastsMs / 1000);
}

/** Ends the session of a request, and its event streams. */
export function logOut(request: ProxyRequest, context: AdminGateContext, activity: ActivityFeed): ProxyResponse {
  const session = sessionOf(request.fields, context.sessions);
  if (session.kind === 'open') {
    const refusal = refuseForgery(request, context.rules);
    if (refusal !== undefined) return problemResponse(refusal.status, refusal.detail, refusal.fields);
    context.sessions.end(session.cookie);
    activity.dismiss();
  }
  return withCookie('', 0);
}

/**
 * The cookie is for this listener's host; browsers send it to other ports of that host too. Scripts cannot read it, and pages of
 * other sites cannot make a browser send it (RFC 6265bis §4.1.2).
 */
function withCookie(value: string, maxAgeSeconds: number): ProxyResponse {
  const cookie = `${sessionCookie}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeSeconds}`;
  return {
    status: 204,
    fields: [
      ['cache-control', 'no-store'],
      ['set-cookie', cookie],
    ],
    body: { kind: 'none' },
  };
}
