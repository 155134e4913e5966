/** The Authorization field as a client sends it (RFC 9110 §11.6.2), and the credentials of Basic in it (RFC 7617). */

import { type Fields, fieldLines } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { hasControlCharacter } from './named-secrets.ts';

/** What follows a scheme. */
export interface Credentials {
  /** In lower case (RFC 9110 §11.1). */
  readonly scheme: string;
  /** Empty where the field has none, or none of that form. */
  readonly token68: string;
}

/** A name and its password. */
export interface BasicCredentials {
  /** In Unicode's composed form (NFC). */
  readonly name: string;
  readonly password: string;
}

/** Longer credentials are none of ours, and are looked at no further. */
const maxCredentialsLength = 4096;

/** RFC 9110 §11.4, §11.2. Other recipients take the field for several by its commas; here it is for one. */
const credentialsForm = /^([!#$%&'*+.^_`|~\w-]+)(?: +([A-Za-z0-9._~+/-]+=*))?$/;
const schemeForm = /^[!#$%&'*+.^_`|~\w-]+(?= |$)/;

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The credentials of a request; undefined where it has none. Throws `ProxyError` (`malformed_request`) for more than one
 * Authorization: the field is no list, and somebody else might read the other one (RFC 9110 §5.3).
 */
export function readAuthorization(fields: Fields): Credentials | undefined {
  const value = singleLine(fields, 'authorization');
  if (value === undefined) return undefined;
  const [, scheme, token68 = ''] = (value.length <= maxCredentialsLength && credentialsForm.exec(value)) || [];
  return { scheme: (scheme ?? schemeForm.exec(value)?.[0] ?? '').toLowerCase(), token68 };
}

/** The value of a field that has one line at most. Throws `ProxyError` (`malformed_request`) for more. */
export function singleLine(fields: Fields, name: string): string | undefined {
  const [value, ...more] = fieldLines(fields, name);
  if (more.length > 0) throw new ProxyError('malformed_request', { detail: `more than one ${name}` });
  return value;
}

/**
 * The name and the password in the token of Basic (RFC 7617 §2): UTF-8 in Base64, written as an encoder writes it; the first
 * colon ends the name. Undefined for anything else, for control characters, and where one of them is empty.
 */
export function parseBasic(token68: string): BasicCredentials | undefined {
  const bytes = Buffer.from(token68, 'base64');
  if (bytes.toString('base64') !== token68) return undefined;
  const text = decodeUtf8(bytes);
  const colon = text?.indexOf(':') ?? -1;
  if (text === undefined || colon < 1 || colon === text.length - 1 || hasControlCharacter(text)) return undefined;
  return { name: text.slice(0, colon).normalize('NFC'), password: text.slice(colon + 1) };
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return undefined;
  }
}
