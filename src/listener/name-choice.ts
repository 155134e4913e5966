/** Chooses by the name that a TLS client asks for (SNI, RFC 6066 §3). */

/** Something that is for certain names. */
export interface Named<T> {
  /** In lower case; `*.` stands for exactly one label (RFC 6125 §6.4.3). */
  readonly names: readonly string[];
  readonly value: T;
}

/**
 * Creates the choice: what has the exact name goes before what has a wildcard for it, the first before the later ones.
 * Undefined for a name that nothing is for.
 */
export function createNameChoice<T>(choices: readonly Named<T>[]): (name: string) => T | undefined {
  const byName = new Map<string, T>();
  for (const { names, value } of choices) {
    for (const name of names) if (!byName.has(name)) byName.set(name, value);
  }
  return (asked) => {
    const name = asked.toLowerCase().replace(/\.$/, '');
    // Nobody asks for a wildcard; its own text must not be taken for a name.
    if (name.startsWith('*')) return undefined;
    return byName.get(name) ?? byName.get(name.replace(/^[^.]+/, '*'));
  };
}
