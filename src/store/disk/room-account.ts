/** The account of the index: how many entries there are, and how much they take. */

import type { IndexConnection } from './index-connection.ts';

/** The account, which the index keeps in one row. Where others change it too, it is read whenever it is asked for. */
export class RoomAccount {
  readonly #connection: IndexConnection;
  readonly #isShared: boolean;
  #allocatedBytes = 0;
  #entryCount = 0;

  constructor(connection: IndexConnection, isShared: boolean) {
    this.#connection = connection;
    this.#isShared = isShared;
    connection.onFresh(() => this.#startAfresh());
    this.read();
  }

  /** What all entries take on the disk, in bytes. */
  get allocatedBytes(): number {
    if (this.#isShared) this.read();
    return this.#allocatedBytes;
  }

  /** How many rows there are, pinned ones too. */
  get entryCount(): number {
    if (this.#isShared) this.read();
    return this.#entryCount;
  }

  /** Reads it again after a change. One that is damaged is made anew. */
  read(): void {
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
    this.#connection.attempt(undefined, ({ recount }) => void recount.run());
    const row = this.#connection.ask(undefined, ({ room }) => room.get());
    if (row === undefined) return;
    this.#allocatedBytes = Math.max(0, Number(row.allocated_bytes));
    this.#entryCount = Number(row.entry_count);
  }

  #startAfresh(): void {
    this.#allocatedBytes = 0;
    this.#entryCount = 0;
  }
}
