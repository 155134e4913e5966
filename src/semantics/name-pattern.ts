/** Names as an operator lists them: exact, or the beginning of names. */

/** Whether a name is in the list; `utm_*` stands for every name that begins with `utm_`. Letter case counts. */
export function isListed(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
