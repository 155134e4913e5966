/** Keeps responses that are not for all out of the caches after this one: those behind credentials, and our own errors. */

import { type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';
import type { ProxyResponse } from '../http/message.ts';
import { splitMembers } from '../semantics/cache-directives.ts';

/** What would let a shared cache keep a response, or is said by `private` alone. */
const replacedDirectives: ReadonlySet<string> = new Set(['public', 'private', 's-maxage']);

/** What nginx and others obey before Cache-Control, besides the fields of RFC 9213. */
const fieldsOfOthers: ReadonlySet<string> = new Set(['surrogate-control', 'x-accel-expires', 'edge-control']);

/**
 * The response for one client alone (RFC 9111 §5.2.2.7). The origin knows nothing of the credentials, and calls public what
 * is so to all who pass; a cache between here and the client would take it at its word, and give the response to those who
 * have not passed (§3.5 lets `public` and `s-maxage` do that even after Authorization). Who asks for the credentials is the
 * origin server of what they are for (RFC 9110 §3.7), and says so. Fields for the caches of others (RFC 9213) are left out,
 * because they would take its place. Lifetimes stay, for the client's own cache.
 */
export function forOneClient(response: ProxyResponse): ProxyResponse {
  const members = fieldLines(response.fields, 'cache-control').flatMap(splitMembers);
  const kept = members.filter((member) => member !== '' && !isReplaced(member));
  // First, so that nothing malformed stands before it.
  const control = ['private', ...kept].join(', ');
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', control]] };
}

function isReplaced(member: string): boolean {
  const [name = ''] = member.split('=', 1);
  return replacedDirectives.has(trimWhitespace(name).toLowerCase());
}

/** An error of our own for this one request, whatever the operator's rules say of caching: they mean what is at the origin. */
export function forOneRequest(response: ProxyResponse): ProxyResponse {
  return { ...response, fields: [...withoutCaching(response.fields), ['cache-control', 'no-store']] };
}

function withoutCaching(fields: Fields): Fields {
  return fields.filter(([name]) => name !== 'cache-control' && !isForOtherCaches(name));
}

function isForOtherCaches(name: string): boolean {
  return name.endsWith('-cache-control') || fieldsOfOthers.has(name);
}
