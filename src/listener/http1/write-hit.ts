/** Writes hits: a head and its content in one piece, where nothing else is due on the connection. */

import type { Fields } from '../../http/fields.ts';
import type { Hit } from '../../http/message.ts';
import { onceForEach } from '../../http/once-for-each.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Pace, Pacer } from '../pace.ts';
import { takenBytes } from '../taken-bytes.ts';
import type { Connection } from './connection.ts';
import { type FieldLines, formatFieldLines, formatStatusLine } from './head-text.ts';
import { writeTogether } from './response-writer.ts';
import type { RunningExchange } from './running-exchange.ts';

/** The lines of the fields that all hits of a stored response have, and whether Date is among them; undefined where one cannot be written. */
const linesOf = onceForEach((fields: Fields): { readonly lines: FieldLines | undefined } => {
  try {
    return { lines: formatFieldLines(fields) };
  } catch {
    return { lines: undefined };
  }
});

const statusLines = new Map([200, 206, 304].map((status) => [status, formatStatusLine(status)]));

/**
 * Writes a hit. What the kernel does not take at once is watched over until the client has it. Returns whether its fields could be
 * written; nothing has happened otherwise. `now` in epoch milliseconds.
 */
export function writeHit(connection: Connection, hit: Hit, now: number, pace: Pace): boolean {
  const { lines } = linesOf(hit.fields);
  if (lines === undefined) return false;
  hit.begin();
  const isTaken = writeTogether(connection, formatHead(connection, hit, lines, now), hit.chunks);
  if (isTaken) {
    hit.giveBack();
    hit.onDelivered({ bytesSent: sizeOf(hit.chunks), complete: true }, now);
  } else connection.begin(new WrittenHit(connection, hit, pace));
  return true;
}

function formatHead({ ground }: Connection, hit: Hit, lines: FieldLines, now: number): string {
  const { status, ageSeconds, cacheStatus, contentRange, sizeBytes } = hit;
  let text = `${statusLines.get(status) ?? formatStatusLine(status)}${lines.text}Age: ${ageSeconds}\r\nCache-Status: ${cacheStatus}\r\n`;
  if (contentRange !== undefined) text += `Content-Range: ${contentRange}\r\n`;
  if (!lines.hasDate) text += ground.dateLine.at(now);
  if (sizeBytes !== undefined) text += `Content-Length: ${sizeBytes}\r\n`;
  return `${text}${ground.keepAlive}\r\n`;
}

function sizeOf(chunks: readonly Uint8Array[]): number {
  let sizeBytes = 0;
  for (const { length } of chunks) sizeBytes += length;
  return sizeBytes;
}

/** A hit of which the socket has all, and the client not yet. */
class WrittenHit implements RunningExchange, Pacer {
  readonly isReceiving = false;
  readonly isWaitingForClient = true;
  readonly isCloseDelimited = false;
  readonly isLast = false;
  readonly isMade = true;
  readonly isWritten = true;
  readonly waitingBytes = 0;
  readonly isBehind = true;
  readonly #connection: Connection;
  readonly #hit: Hit;
  readonly #endWatch: () => void;
  #error: ProxyError | undefined;
  #isSettled = false;

  constructor(connection: Connection, hit: Hit, pace: Pace) {
    const { socket } = connection;
    this.#connection = connection;
    this.#hit = hit;
    this.#endWatch = pace.watch(this, (error) => this.#giveUp(error));
    if (socket.writable) socket.write('', (error) => this.#settle(error === null || error === undefined));
  }

  get isBroken(): boolean {
    return this.#error !== undefined;
  }

  get takenBytes(): number {
    return takenBytes(this.#connection);
  }

  takeTurn(): void {}

  breakBody(): void {}

  connectionClosed(): void {
    this.#settle(false);
  }

  #giveUp(error: ProxyError): void {
    this.#error = error;
    this.#connection.cutAt(this);
  }

  #settle(isWhole: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#endWatch();
    const { chunks } = this.#hit;
    const error = isWhole ? undefined : (this.#error ?? new ProxyError('client_gone'));
    const delivery = { bytesSent: sizeOf(chunks), complete: isWhole, error };
    this.#hit.onDelivered(delivery, this.#connection.ground.now());
    this.#connection.settle(this);
  }
}
