/** What is invalidated while something is on its way: that may be read, but not be stored, or given to those who come later. */

/** Notes the invalidations that concern one exchange. */
export class Revocation {
  #isRevoked = false;
  /** What was invalidated before it was known which tags the response has, in order; none is most often. */
  #tags: Set<string> | undefined;
  #isSettled = false;
  #firstOwn = -1;

  /** Its key was invalidated. */
  revoke(): void {
    this.#isRevoked = true;
  }

  /** Everything that has this tag was invalidated; `known` are the tags of the response once they are known. */
  revokeTagged(tag: string, known: readonly string[] = []): void {
    if (!this.#isSettled) this.#tags = (this.#tags ?? new Set()).add(tag);
    else if (known.includes(tag)) this.#isRevoked = true;
  }

  /** How many tags were invalidated as long as it was not known which ones the response has. */
  get tagCount(): number {
    return this.#tags?.size ?? 0;
  }

  /** Whether a response with these tags, if they are not known yet, has been invalidated since it was asked for. */
  concerns(tags: readonly string[] = []): boolean {
    return this.#isRevoked || tags.some((tag) => this.#tags?.has(tag) === true);
  }

  /** The response has come, and has these tags. */
  settle(tags: readonly string[] = []): void {
    this.#isRevoked = this.concerns(tags);
    this.#firstOwn = [...(this.#tags ?? [])].findIndex((tag) => tags.includes(tag));
    this.#tags = undefined;
    this.#isSettled = true;
  }

  /** Whether the response was invalid already for those who came when so many tags were invalidated. */
  wasOverFor(tagCount: number): boolean {
    return this.#firstOwn >= 0 && this.#firstOwn < tagCount;
  }
}
