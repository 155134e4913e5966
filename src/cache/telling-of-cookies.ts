/** Telling operators of cookies that are stored. */

import { type Fields, hasField } from '../http/fields.ts';
import type { ExchangeContext } from './exchange-context.ts';

/**
 * Tells that the cookie of a response is among what is stored: the law allows it (RFC 9111 §7.3), and an origin that has
 * not meant it gives one user's session to all others.
 */
export function tellOfCookie(
  { emit, telling, clock }: ExchangeContext,
  key: string,
  received: Fields,
  stored: Fields,
): void {
  if (!hasField(received, 'set-cookie') || !hasField(stored, 'set-cookie')) return;
  const message =
    'A response with Set-Cookie and a lifetime is stored, and its cookie is given to every client, because cache.setCookie of the route is "store". Where that is not meant, remove the option, or set it to "strip".';
  emit({ kind: 'store', level: telling.levelOf('set-cookie', clock.now()), message, detail: key });
}
