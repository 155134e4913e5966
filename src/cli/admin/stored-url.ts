/** URLs of what is stored, as people write them. */

import { parseUrl } from '../explain/explain-flags.ts';

/** The URL as it was written, with `http://` before it where it names no scheme; undefined for what is none. */
export function withScheme(text: string): string | undefined {
  // A path alone would have its first segment, or nothing, for its host.
  if (text.startsWith('/') || parseUrl(text) === undefined) return undefined;
  return /^https?:\/\//i.test(text) ? text : `http://${text}`;
}
