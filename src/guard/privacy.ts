/** Keeps responses of a route with credentials out of caches that others are served from. */

import { type Fields, fieldLines } from '../http/fields.ts';
import type { ProxyResponse } from '../http/message.ts';
import { splitMembers } from '../semantics/cache-directives.ts';

/** What would let a shared cache keep a response, or is said by `private` alone. */
const replacedDirectives: ReadonlySet<string> = new Set(['public', 'private', 's-maxage']);

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
  const fields: Fields = response.fields.filter(([name]) => name !== 'cache-control' && !isForOtherCaches(name));
  // First, so that nothing malformed stands before it.
  return { ...response, fields: [...fields, ['cache-control', ['private', ...kept].join(', ')]] };
}

function isReplaced(member: string): boolean {
  return replacedDirectives.has(member.replace(/[ \t]*=.*$/s, '').toLowerCase());
}

function isForOtherCaches(name: string): boolean {
  return name.endsWith('-cache-control') || name === 'surrogate-control';
}
