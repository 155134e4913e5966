/** A short notation for cache directives in tests. */

import type { CacheDirective } from '../../../src/semantics/cache-control.ts';

/** Formats a directive: `name`, `name=token`, `name="quoted"`, or `!name` for a malformed one. */
export function inShort({ name, argument, quoted, malformed }: CacheDirective): string {
  if (malformed) return `!${name}`;
  if (argument === undefined) return name;
  return quoted ? `${name}="${argument}"` : `${name}=${argument}`;
}
