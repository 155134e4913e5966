/** State that one configuration leaves to the next. It is kept where the options that it depends on are unchanged. */

import { hash } from 'node:crypto';

/** Lets a route take over state of the same route in the previous site. */
export interface Heir {
  /**
   * Returns the value of this kind that the route had with an equal `sameness`, or else what `make` returns. `sameness` is a JSON
   * value of everything that must be unchanged. Only its digest is kept, because it may contain secrets.
   */
  take<T>(kind: string, sameness: unknown, make: () => T): T;
}

/** For a route without a previous one. */
export const noHeir: Heir = { take: (_kind, _sameness, make) => make() };

/** The state that routes of one site may leave to those of the next. It refers to the previous site only while its own is created. */
export class Inheritance {
  readonly #own = new Map<string, unknown>();
  #before: ReadonlyMap<string, unknown>;

  constructor(before?: Inheritance) {
    this.#before = before === undefined ? new Map() : before.#own;
  }

  /** Returns the heir of the same route in the previous site. `route` identifies a route: no two of a site have the same. */
  of(route: unknown): Heir {
    return {
      take: <T>(kind: string, sameness: unknown, make: () => T): T => {
        const key = `${kind} ${hash('sha256', JSON.stringify([route, sameness]))}`;
        // The kind is part of the key, so an existing value has the type that `make` returns.
        const value = this.#before.has(key) ? (this.#before.get(key) as T) : make();
        this.#own.set(key, value);
        return value;
      },
    };
  }

  /** Checks whether its own site has taken over or made this value. */
  has(value: unknown): boolean {
    return [...this.#own.values()].includes(value);
  }

  /** Forgets the previous site, once its own is created. */
  settle(): void {
    this.#before = new Map();
  }

  /** Forgets everything, once its own site is replaced: closures in values that were taken over must not keep the rest alive. */
  forget(): void {
    this.#own.clear();
  }
}
