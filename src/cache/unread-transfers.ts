/** Transfers that go on although no client reads them: how many of one client may. */

/** A transfer, or an exchange that has not brought its head yet. */
export interface UnreadTransfer {
  readonly isUnread: boolean;
}

/** Counts unread transfers by client. A transfer that is read again does not count until its last reader leaves again. */
export class UnreadTransfers {
  readonly #byClient = new Map<string, Set<UnreadTransfer>>();

  /** Whether a transfer may go on unread, where `most` of its client may at a time. It counts until `forget`. */
  mayGoOn(client: string, transfer: UnreadTransfer, most: number): boolean {
    if (most === Number.POSITIVE_INFINITY) return true;
    if (!this.hasRoom(client, most, transfer)) return false;
    this.#byClient.set(client, (this.#byClient.get(client) ?? new Set()).add(transfer));
    return true;
  }

  /** Whether one more may be unread, besides those that are and are not this one. */
  hasRoom(client: string, most: number, transfer?: UnreadTransfer): boolean {
    let others = 0;
    for (const other of this.#byClient.get(client) ?? []) if (other !== transfer && other.isUnread) others += 1;
    return others < most;
  }

  /** The transfer has ended. */
  forget(client: string, transfer: UnreadTransfer): void {
    const transfers = this.#byClient.get(client);
    if (transfers?.delete(transfer) === true && transfers.size === 0) this.#byClient.delete(client);
  }
}
