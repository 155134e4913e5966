/** Writes hits: a head and its content in one piece, where nothing else is due on the connection. */

import type { Socket } from 'node:net';
import type { Fields } from '../../http/fields.ts';
import type { Hit } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Pace, Pacer } from '../pace.ts';
import { takenBytes } from '../taken-bytes.ts';
import type { Ground } from './ground.ts';
import { type FieldLines, formatFieldLines, formatLine, formatStatusLine } from './head-text.ts';
import type { RunningExchange } from './running-exchange.ts';

/** The connection of a hit. */
export interface HitPlace {
  readonly socket: Socket;
  readonly ground: Pick<Ground, 'joint' | 'dateLine' | 'keepAlive' | 'pace' | 'now'>;
  readonly movedBytes: number;
  begin(exchange: RunningExchange): void;
  cutAt(exchange: RunningExchange): void;
  settle(exchange: RunningExchange): void;
}

const statusLines = new Map([200, 206, 304].map((status) => [status, formatStatusLine(status)]));

/**
 * Writes a hit. What the kernel does not take at once is watched over until the client has it. Returns whether its fields could be
 * written; nothing has happened otherwise. `now` in epoch milliseconds.
 */
export function writeHit(connection: HitPlace, hit: Hit, now: number): boolean {
  const { status, fields, ageSeconds, cacheStatus, contentRange, more, sizeBytes, chunks } = hit;
  fields.text ??= formatKept(fields.lines);
  if (fields.text === false) return false;
  const { dateLine, keepAlive, joint, pace } = connection.ground;
  let head = `${statusLines.get(status)}${fields.text.text}Age: ${ageSeconds}\r\nCache-Status: ${cacheStatus}\r\n`;
  if (contentRange !== undefined) head += `Content-Range: ${contentRange}\r\n`;
  for (const [name, value] of more) head += formatLine(name, value);
  if (!fields.text.hasDate) head += dateLine.at(now);
  if (sizeBytes !== undefined) head += `Content-Length: ${sizeBytes}\r\n`;
  if (joint.write(connection.socket, `${head}${keepAlive}\r\n`, chunks)) {
    hit.giveBack();
    hit.onDelivered({ bytesSent: chunks.length === 0 ? 0 : (sizeBytes ?? 0), complete: true }, now);
  } else {
    hit.begin();
    connection.begin(new WrittenHit(connection, hit, pace));
  }
  return true;
}

/** False where a field cannot be written. */
function formatKept(lines: Fields): FieldLines | false {
  try {
    return formatFieldLines(lines);
  } catch {
    return false;
  }
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
  readonly #connection: HitPlace;
  readonly #hit: Hit;
  readonly #endWatch: () => void;
  #error: ProxyError | undefined;
  #isSettled = false;

  constructor(connection: HitPlace, hit: Hit, pace: Pace) {
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
    const { chunks, sizeBytes = 0 } = this.#hit;
    const error = isWhole ? undefined : (this.#error ?? new ProxyError('client_gone'));
    const delivery = { bytesSent: chunks.length === 0 ? 0 : sizeBytes, complete: isWhole, error };
    this.#hit.onDelivered(delivery, this.#connection.ground.now());
    this.#connection.settle(this);
  }
}
