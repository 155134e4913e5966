/** Which keys are of one path, under whatever authority. */

/**
 * Keys of one path, whatever the authority: they begin with `start`, which ends before the authority, and have `rest` from the
 * first slash after it on.
 */
export interface KeyPattern {
  readonly start: string;
  readonly rest: string;
  /** Whether more may follow after `rest`. */
  readonly isPrefix: boolean;
}

/** Whether a key is one of a pattern. */
export function hasPattern(key: string, { start, rest, isPrefix }: KeyPattern): boolean {
  if (!key.startsWith(start)) return false;
  const at = key.indexOf('/', start.length);
  const end = at + rest.length;
  // Behind `#` stands another spelling of the same path (see `targetKeys`).
  return at >= 0 && key.startsWith(rest, at) && (isPrefix || key.length === end || key[end] === '#');
}
