/** Removes generations from the index, also while their rows cannot be deleted, and gives their files back. */

import type { IndexConnection } from './index-connection.ts';
import type { Row } from './index-statements.ts';
import { fileBytesOf, type Instances } from './instances.ts';
import type { RoomAccount } from './room-account.ts';

/** Keys under which something else is stored now, and generations that were replaced or removed. */
export interface IndexChange {
  readonly keys: readonly string[];
  readonly generations: readonly string[];
  /** Generations that were removed, whose rows are there still. */
  readonly lost?: readonly string[];
}

/** Who is told of what. */
export interface RemovalListeners {
  /** Is told of each generation that is not the current one any more: it is pinned or removed. */
  readonly onRemoved: (generation: string) => void;
  /**
   * Is told of generations that were removed: their files, if they have any, are of no use any more. In doubt there is a
   * sidecar. `allocatedBytes` is what their deleted row counted, and 0 while the row is there still.
   */
  readonly onFilesUnneeded: (generation: string, hasSidecar: boolean, allocatedBytes: number) => void;
  /** Is told of what other processes have to know. */
  readonly onChanged?: ((change: IndexChange) => void) | undefined;
}

/** What is removed. */
export class Removals {
  readonly #connection: IndexConnection;
  readonly #account: RoomAccount;
  readonly #listeners: RemovalListeners;
  readonly #instances: Instances | undefined;
  /** Generations that were removed, until their rows could be deleted, which a full disk may delay. */
  readonly #removed = new Set<string>();
  /** Those of them that this process has removed and told nobody of. */
  readonly #untold = new Set<string>();

  constructor(
    connection: IndexConnection,
    account: RoomAccount,
    listeners: RemovalListeners & { readonly instances?: Instances | undefined },
  ) {
    this.#connection = connection;
    this.#instances = listeners.instances;
    this.#account = account;
    this.#listeners = listeners;
    connection.onFresh(() => this.#forget());
  }

  /** Whether a generation was removed whose row may be there still. */
  has(generation: string): boolean {
    return this.#removed.has(generation);
  }

  /** Removes generations, where they are there; tells how many rows were deleted. */
  remove(generations: readonly string[]): number {
    for (const generation of generations) this.#untold.add(generation);
    this.note(generations);
    return this.flush();
  }

  /** Notes that generations are not to be found again. */
  note(generations: readonly string[]): void {
    for (const generation of generations) {
      if (!this.#removed.has(generation)) this.#listeners.onRemoved(generation);
      this.#removed.add(generation);
    }
  }

  /** Deletes the rows that are still to be deleted; tells how many there were. */
  flush(): number {
    if (this.#removed.size === 0) return 0;
    const rows = this.#connection.attempt(undefined, (statements) => {
      const deleted = [...this.#removed].flatMap((generation) => statements.deleteGeneration.all(generation));
      this.#instances?.noteRemoval(statements, deleted);
      return deleted;
    });
    if (rows !== undefined) {
      this.#forget();
      const generations = rows.map((row) => String(row.generation));
      this.#listeners.onChanged?.({ keys: rows.map((row) => String(row.key)), generations });
      this.giveBack(rows);
      return rows.length;
    }
    const lost = [...this.#untold];
    this.#untold.clear();
    this.#listeners.onChanged?.({ keys: this.#keysOf(lost), generations: [], lost });
    // What is in files can be given back nevertheless, and may be just the room that the index lacks.
    for (const generation of this.#removed) this.#listeners.onFilesUnneeded(generation, true, 0);
    return 0;
  }

  #forget(): void {
    this.#removed.clear();
    this.#untold.clear();
  }

  #keysOf(generations: readonly string[]): string[] {
    return this.#connection.ask([], ({ entryOfGeneration }) =>
      generations.flatMap((generation) => {
        const row = entryOfGeneration.get(generation);
        return row === undefined ? [] : [String(row.key)];
      }),
    );
  }

  /** Tells of the files of deleted rows. */
  giveBack(rows: readonly Row[]): void {
    this.#account.noteChange();
    for (const row of rows) {
      if (row.is_inline === 1) continue;
      this.#listeners.onFilesUnneeded(String(row.generation), row.block_checksum === null, fileBytesOf([row]));
    }
  }
}
