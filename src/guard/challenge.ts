/** How a request is refused whose credentials are missing or wrong: which status, and what is asked for. */

import type { Field } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';

/** What a refused request has shown. */
export interface Shown {
  readonly hasBearer: boolean;
  /** Basic, or an API key. */
  readonly hasOther: boolean;
  /** Why the signature of its URL is no pass; undefined where it has none. */
  readonly signatureRefusal: string | undefined;
}

/** What a route takes; a kind that it does not is undefined. */
export interface Taken {
  readonly realm: string;
  readonly basic: unknown;
  readonly bearer: unknown;
  readonly apiKey: unknown;
}

/**
 * The refusal. 401 has to name a scheme by which a client could do better (RFC 9110 §15.5.2, §11.6.1), so it is for routes
 * that take Basic or Bearer. There is no scheme for API keys and signed URLs: routes that take only these say 403, and so
 * do all to a URL whose signature is not valid, where nothing else was shown. A client learns no more than that.
 */
export function credentialsRefusal({ hasBearer, hasOther, signatureRefusal }: Shown, taken: Taken): ProxyError {
  const detail = signatureRefusal === undefined ? {} : { detail: `signature: ${signatureRefusal}` };
  const hasScheme = taken.basic !== undefined || taken.bearer !== undefined;
  const hasShown = hasBearer || hasOther;
  if (signatureRefusal !== undefined && !hasShown) return new ProxyError('signature_refused', detail);
  if (!hasScheme) return new ProxyError(taken.apiKey === undefined ? 'signature_refused' : 'key_refused', detail);
  const code = hasShown ? 'credentials_refused' : 'credentials_required';
  return new ProxyError(code, { ...detail, fields: challenges(taken, hasBearer) });
}

/**
 * One challenge in each line, because clients have been seen that read no list. A token that was shown is called invalid
 * (RFC 6750 §3.1); a request that shows none is told of no error (§3). `realm` needs no escapes.
 */
function challenges({ realm, basic, bearer }: Taken, hasBearer: boolean): Field[] {
  const lines: Field[] = [];
  if (basic !== undefined) lines.push(['www-authenticate', `Basic realm="${realm}", charset="UTF-8"`]);
  const error = hasBearer ? ', error="invalid_token"' : '';
  if (bearer !== undefined) lines.push(['www-authenticate', `Bearer realm="${realm}"${error}`]);
  return lines;
}
