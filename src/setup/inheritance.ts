/** What one configuration leaves to the next: what has been learned, where what it was learned with stays as it was. */

import { hash } from 'node:crypto';

/** One route, that takes from the route before it what it has in common with it. */
export interface Heir {
  /**
   * What the route had of this kind with this sameness, or what `make` makes. The sameness is a value that JSON can hold: all
   * that has to be as it was. Only a digest of it is kept, because there may be secrets in it.
   */
  take<T>(kind: string, sameness: unknown, make: () => T): T;
}

/** Of a route that comes after no other. */
export const noHeir: Heir = { take: (_kind, _sameness, make) => make() };

/** All that the routes of one site may leave to those of the next. It knows the site before only while its own is made. */
export class Inheritance {
  readonly #own = new Map<string, unknown>();
  #before: ReadonlyMap<string, unknown>;

  constructor(before?: Inheritance) {
    this.#before = before === undefined ? new Map() : before.#own;
  }

  /** The heir of the route that is the same as this one in the site before: no two of a site are. */
  of(route: unknown): Heir {
    return {
      take: <T>(kind: string, sameness: unknown, make: () => T): T => {
        const key = `${kind} ${hash('sha256', JSON.stringify([route, sameness]))}`;
        // Whoever asks for the same kind with the same sameness asks for what has been made for that.
        const value = this.#before.has(key) ? (this.#before.get(key) as T) : make();
        this.#own.set(key, value);
        return value;
      },
    };
  }

  /** Whether this is among what its own site has taken or made. */
  has(value: unknown): boolean {
    return [...this.#own.values()].includes(value);
  }

  /** The site is made: the one before is not known any more. */
  settle(): void {
    this.#before = new Map();
  }

  /** The site is no more. What others have taken of it may know it by its closures, and must not keep the rest. */
  forget(): void {
    this.#own.clear();
  }
}
