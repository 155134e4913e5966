/** What belongs to one connection of a client alone, and ends with it. */

/**
 * A connection that carries the requests of a client one after another (HTTP/1.x). An origin may authenticate a client by its
 * connection, so connections to origins can be bound to it.
 */
export interface ClientConnection {
  /**
   * By the name of the client: behind a trusted proxy one connection may carry requests of several. Undefined where no origin
   * authenticates clients by their connection, which is the rule.
   */
  owners: Map<string, BoundClient> | undefined;
}

/** One client on one connection, who has connections to origins that no other request uses. */
export class BoundClient {
  readonly #onEnd: (() => void)[] = [];
  #isEnded = false;

  /** Calls a listener when the client's connection has ended; at once where it has. */
  whenEnded(listener: () => void): void {
    if (this.#isEnded) listener();
    else this.#onEnd.push(listener);
  }

  /** The client's connection has ended. */
  end(): void {
    this.#isEnded = true;
    for (const listener of this.#onEnd.splice(0)) listener();
  }
}

/** Returns the owner for a client on a connection, from now on. */
export function bindConnection(connection: ClientConnection, client: string): BoundClient {
  connection.owners ??= new Map();
  const known = connection.owners.get(client);
  if (known !== undefined) return known;
  const owner = new BoundClient();
  connection.owners.set(client, owner);
  return owner;
}

/** Ends all owners of a connection, which has ended. */
export function endOwners({ owners }: ClientConnection): void {
  for (const owner of owners?.values() ?? []) owner.end();
}
