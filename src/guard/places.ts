/** How many of something there may be at a time, in all and for each client. */

/** A count for each client that has one; those without cost nothing. */
export class Places {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** How many clients have one. */
  get clients(): number {
    return this.#counts.size;
  }

  /** How many a client has. */
  of(client: string): number {
    return this.#counts.get(client) ?? 0;
  }

  /** Takes one, and gives the function that gives it back; a second call of that does nothing. */
  take(client: string): () => void {
    this.#total += 1;
    this.#counts.set(client, this.of(client) + 1);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#total -= 1;
      const left = this.of(client) - 1;
      if (left > 0) this.#counts.set(client, left);
      else this.#counts.delete(client);
    };
  }
}
