/** Which requests are explained instead of answered. */

import { changedRequest } from '../http/changed-request.ts';
import { type Fields, fieldLines, hasField, listMembers, withoutFields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { isClaim } from './claims.ts';
import type { PeerList } from './peers.ts';

/**
 * The field by which a request asks to be explained, a structured field: `?1`, or `?1;method=HEAD` for another method than
 * its own. In a response `?1` says that it is an explanation.
 */
const explainField = 'rangeway-explain';

/**
 * A Boolean, with a method where another one than that of this request is meant: a response to HEAD could hold no explanation,
 * and who does not explain would take a POST for one.
 */
const askingForm = /^\?1(?:; *method=([A-Za-z][!#$%&'*+.^_`|~\w-]*))?$/;

/** Fields by which proxies say that a request has passed through them (RFC 9110 §7.6.3, RFC 8586). */
const proxyFields: ReadonlySet<string> = new Set(['via', 'cdn-loop']);

/** Whether a request asks for it, whoever sends it. */
export function asksExplanation(fields: Fields): boolean {
  return hasField(fields, explainField);
}

/**
 * The request that is to be explained, as it would be without asking for that; undefined for one that is to be answered.
 * Explanations are for the one at the other end of the connection, if that is trusted: Connection has to name the field
 * (RFC 9110 §7.6.1), which browsers do for no page and proxies pass on for no client, and nothing may show that the peer
 * speaks for somebody else.
 */
export function selectExplained(request: ProxyRequest, isTrusted: PeerList): ProxyRequest | undefined {
  const { fields, peer } = request;
  if (!asksExplanation(fields)) return undefined;
  const [value = '', ...more] = fieldLines(fields, explainField);
  const [asked, method = request.method] = askingForm.exec(value) ?? [];
  if (asked === undefined || more.length > 0 || !isNamed(fields) || isForwarded(fields)) return undefined;
  if (!isTrusted(peer.address)) return undefined;
  return changedRequest(request, { method, fields: withoutFields(fields, new Set([explainField])) });
}

function isNamed(fields: Fields): boolean {
  const options = fieldLines(fields, 'connection').flatMap(listMembers);
  return options.some((option) => option.toLowerCase() === explainField);
}

/** Whether fields show that the peer speaks for somebody else. */
export function isForwarded(fields: Fields): boolean {
  return fields.some(([name]) => proxyFields.has(name) || isClaim(name));
}
