/** The account of the index: how many entries there are, and how much they take. */

import type { IndexConnection } from './index-connection.ts';

/** The account, which the index keeps in one row. Read when it is asked for: after a change, and always where others change it too. */
export class RoomAccount {
  readonly #connection: IndexConnection;
  readonly #isShared: boolean;
  #isOutdated = false;
  #allocatedBytes = 0;
  #entryCount = 0;

  constructor(connection: IndexConnection, isShared: boolean) {
    this.#connection = connection;
    this.#isShared = isShared;
    connection.onFresh(() => this.#startAfresh());
    this.#read();
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#allocatedBytes;
  }

  /** How many rows there are, pinned ones too. */
  get entryCount(): number {
    if (this.#isShared || this.#isOutdated) this.#read();
    return this.#entryCount;
  }

  /** Something was changed. */
  noteChange(): void {
    this.#isOutdated = true;
  }

  /** One that is damaged is made anew. */
  #read(): void {
    this.#isOutdated = false;
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    const bytes = Number(row?.allocated_bytes);
    if (bytes >= 0 && bytes === -Number(row?.negated_bytes)) {
      this.#allocatedBytes = bytes;
      this.#entryCount = Number(row?.entry_count);
    } else {
      this.recount();
    }
  }

  /** Makes it anew, where it may be wrong because something was damaged. */
  recount(): void {
    this.#isOutdated = false;
    this.#connection.attempt(undefined, ({ recount }) => void recount.run());
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    if (row === undefined) return;
    this.#allocatedBytes = Math.max(0, Number(row.allocated_bytes));
    this.#entryCount = Number(row.entry_count);
  }

  #startAfresh(): void {
    this.#isOutdated = false;
    this.#allocatedBytes = 0;
    this.#entryCount = 0;
  }
}
