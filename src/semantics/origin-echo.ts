/** Responses that name the web origin of the page that asked (Origin), and so are for its pages alone. */

import { type Fields, fieldValue } from '../http/fields.ts';

/** What a response says about the page that asked for it (Fetch §3.3.3). */
const echoFields: ReadonlySet<string> = new Set(['access-control-allow-origin', 'access-control-allow-credentials']);

/**
 * Whether a response repeats the Origin of its request in Access-Control-Allow-Origin. It then differs by Origin, whether its
 * Vary says so (Fetch §3.3.5) or not, as many servers forget.
 */
export function echoesOrigin(request: Fields, response: Fields): boolean {
  const origin = fieldValue(request, 'origin');
  return origin !== undefined && fieldValue(response, 'access-control-allow-origin') === origin;
}

/** The fields of a response without what they say about the page that asked, where they repeat its Origin. */
export function withoutOriginEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => !echoFields.has(name)) : response;
}

/** What a response says about the page that asked, where it repeats its Origin; nothing elsewhere. */
export function originEcho(request: Fields, response: Fields): Fields {
  return echoesOrigin(request, response) ? response.filter(([name]) => echoFields.has(name)) : [];
}
