/** Which things have a tag: a look-up in memory that knows a tag only as long as something has it. */

/** The index. A thing is told apart from others by its identity. */
export class TagIndex<Thing extends object> {
  readonly #tagged = new Map<string, Set<Thing>>();

  /** How many tags something has. */
  get size(): number {
    return this.#tagged.size;
  }

  /** The things that have a tag now. */
  tagged(tag: string): readonly Thing[] {
    return [...(this.#tagged.get(tag) ?? [])];
  }

  /** Notes that a thing has these tags. */
  add(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      if (things === undefined) this.#tagged.set(tag, new Set([thing]));
      else things.add(thing);
    }
  }

  /** Forgets that a thing has these tags. */
  delete(thing: Thing, tags: readonly string[] = []): void {
    for (const tag of tags) {
      const things = this.#tagged.get(tag);
      things?.delete(thing);
      if (things?.size === 0) this.#tagged.delete(tag);
    }
  }
}
