/** What a response differs by although its Vary may not say so: many servers forget. */

import { type Fields, fieldValue } from '../http/fields.ts';
import { echoesOrigin } from './origin-echo.ts';

/**
 * Request fields that a response to this request was selected by, as its own fields show: Origin, where it repeats that, and
 * Accept-Encoding, where its content is encoded (RFC 9110 §12.5.3). They count as if Vary had them.
 */
export function impliedVary(request: Fields, response: Fields): readonly string[] {
  const encoding = fieldValue(response, 'content-encoding')?.toLowerCase() ?? 'identity';
  return [
    ...(encoding === 'identity' || encoding === '' ? [] : ['accept-encoding']),
    ...(echoesOrigin(request, response) ? ['origin'] : []),
  ];
}
