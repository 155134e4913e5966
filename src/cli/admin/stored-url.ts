/** URLs of what is stored, as people write them. */

import { isLoopback } from '../../config/admin-schema.ts';
import { parseUrl } from '../explain/explain-flags.ts';

/** The URL as it was written, with `http://` before it where it names no scheme, or a path alone; undefined for what is neither. */
export function withScheme(text: string): string | undefined {
  // What a path alone is completed by, the server knows. With two slashes it would be an authority.
  if (text.startsWith('/')) return text.startsWith('//') ? undefined : text;
  if (parseUrl(text) === undefined) return undefined;
  return /^https?:\/\//i.test(text) ? text : `http://${text}`;
}

/** Whether clients on this machine reach a URL at one of these addresses, such as `http://127.0.0.1:8080`. */
export function isServedAt(text: string, addresses: readonly string[]): boolean {
  const url = text.startsWith('/') ? undefined : parseUrl(text);
  return url !== undefined && addresses.some((address) => URL.canParse(address) && isSamePlace(url, new URL(address)));
}

function isSamePlace(url: URL, served: URL): boolean {
  if (served.protocol !== url.protocol || served.port !== url.port) return false;
  if (served.hostname === url.hostname) return true;
  if (isEverywhere.test(served.hostname)) return isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1'));
  return url.hostname === 'localhost' && /^(?:127\.0\.0\.1|\[::1\])$/.test(served.hostname);
}

const isEverywhere = /^(?:0\.0\.0\.0|\[::\])$/;
