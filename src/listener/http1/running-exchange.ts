/** An exchange, as the connection sees it that it runs on. */

import type { ProxyError } from '../../http/proxy-error.ts';

/** What a connection asks of the exchanges on it. */
export interface RunningExchange {
  /** Whether its request's body is still coming. */
  readonly isReceiving: boolean;
  /** Whether only the client can bring it forward, by sending or by reading. */
  readonly isWaitingForClient: boolean;
  /** Whether the end of its response is the end of the connection, so that only a reset tells a broken one from a whole one. */
  readonly isCloseDelimited: boolean;
  /** Whether its response says that it is the last one on the connection: then it is, whatever was begun after it. */
  readonly isLast: boolean;
  /** Whether its response broke off. */
  readonly isBroken: boolean;
  /** Whether all of its response is there, written or not. */
  readonly isMade: boolean;
  /** Whether all of its response was given to the socket, so that the next one may follow. */
  readonly isWritten: boolean;
  /** Bytes of its response that are there, and wait for those before it to be written. */
  readonly waitingBytes: number;
  /** All responses before its own were written, and the socket takes more. May be called again and again. */
  takeTurn(): void;
  /** Its request's body cannot come whole any more. */
  breakBody(error: ProxyError): void;
  /** Nothing more can be sent or received. */
  connectionClosed(): void;
}
