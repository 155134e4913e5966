/** A generation that a flight has open: what the flight, and those who wait for it, need of it. */

import type { ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { Outlook } from './fetch-decision.ts';
import type { Seat } from './readers.ts';
import type { Representation } from './representation.ts';

/** `Generation`, whose bytes are on their way, or `ArrivedGeneration`, whose bytes are all there. */
export interface OpenGeneration {
  /** Its name in the store. */
  readonly name: string;
  readonly response: StoredResponse;
  /** The status of the response that the origin began it with. */
  readonly originStatus: number;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent for it. */
  readonly received: number;
  /** Whether new readers may attach and find every byte. */
  readonly isJoinable: boolean;
  /** Whether the store has been let go of. */
  readonly isClosed: boolean;
  readonly readerCount: number;
  /** Which bytes are there, coming, or to be asked for. */
  readonly outlook: Outlook;
  /** See `Generation.run`. Never rejects. */
  run(waiting: Iterable<Seat>): Promise<void>;
  /** See `Generation.whenTaken`. */
  whenTaken(): Promise<void> | undefined;
  /** Takes the metadata that a 304 has freshened. */
  freshen(metadata: StoredResponse): void;
  /** Cuts off what is still coming. */
  stop(error: ProxyError): void;
  /** Holds it for one request of a client until the representation is closed. */
  attach(seat: Seat): Representation;
}
