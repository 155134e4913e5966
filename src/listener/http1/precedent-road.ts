/** The short road: a request whose head is like one before is answered by the precedent that that one has left. */

import type { Fields } from '../../http/fields.ts';
import type { EqualRequest, MovableBytes, Precedent, PrecedentResponse, ProxyResponse } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { takesMovable } from '../descriptor.ts';
import type { Pace } from '../pace.ts';
import { Precedents } from '../precedents.ts';
import type { Connection } from './connection.ts';
import { FollowedExchange } from './followed-exchange.ts';
import { type DateLine, formatFieldLines, formatLine, formatStatusLine } from './head-text.ts';
import type { PlainHead } from './plain-head.ts';
import type { ParsedHead } from './request-head.ts';
import { moveTogether, writeTogether } from './response-writer.ts';

/** What the road is made with. */
export interface PrecedentRoadOptions {
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  readonly pace: Pace;
  readonly dateLine: DateLine;
  /** What a connection that goes on says of itself. */
  readonly keepAlive: string;
}

/** Whether nothing of this request but the value that was taken out of its text can change from one like it to the next. */
export function canBeRemembered({ method, fields }: ParsedHead, plain: PlainHead): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const ranges = fields.filter(([name]) => name === 'range');
  return plain.range === undefined ? ranges.length === 0 : ranges.length === 1 && ranges[0]?.[1] === plain.range;
}

/** Remembers precedents, and follows them. */
export class PrecedentRoad {
  readonly #options: PrecedentRoadOptions;
  readonly #precedents = new Precedents<RememberedAnswer>();

  constructor(options: PrecedentRoadOptions) {
    this.#options = options;
  }

  /** Remembers what the response to a request leaves, if that was one that `canBeRemembered`. */
  remember({ text }: PlainHead, { method }: ParsedHead, { precedent, closeConnection }: ProxyResponse): void {
    if (precedent === undefined || closeConnection === true) return;
    this.#precedents.put(text, new RememberedAnswer(precedent, method === 'HEAD'));
  }

  /** Answers on a connection on which nothing is due. Returns false for a request that has to go the whole road. */
  follow(connection: Connection, { text, range }: PlainHead): boolean {
    const answer = this.#precedents.find(text);
    if (answer === undefined) return false;
    const request = {
      range,
      peer: connection.peer,
      receivedAt: this.#options.now(),
      takesMovable: !answer.isHead && takesMovable(connection.socket),
    };
    const response = answer.precedent.follow(request);
    if (response === undefined) this.#precedents.forget(text);
    else this.#deliver(connection, answer, response, request);
    return response !== undefined;
  }

  forgetAll(): void {
    this.#precedents.clear();
  }

  #deliver(connection: Connection, answer: RememberedAnswer, response: PrecedentResponse, request: EqualRequest): void {
    const { movable } = response;
    const content = movable === undefined ? answer.contentOf(response) : noContent;
    const head = answer.headOf(response, request.receivedAt, this.#options);
    if (content === undefined || head === undefined) {
      const error = new ProxyError('internal', { detail: 'a response of a precedent that cannot be written' });
      response.onDelivered({ bytesSent: 0, complete: false, error });
      connection.refuse(error);
      return;
    }
    if (movable !== undefined) {
      this.#move(connection, response, movable, head);
      return;
    }
    const bytesSent = content.length === 0 ? 0 : response.sizeBytes;
    if (writeTogether(connection, head, content)) {
      response.onDelivered({ bytesSent, complete: true });
      response.giveBack?.();
    } else new FollowedExchange(connection, response, bytesSent, this.#options.pace);
  }

  /** Moves what the client takes at once, and writes the rest. */
  #move(connection: Connection, response: PrecedentResponse, movable: MovableBytes, head: string): void {
    const { sizeBytes } = response;
    const takenBytes = moveTogether(connection, head, movable);
    const movedBytes = Math.max(0, takenBytes - head.length);
    if (movedBytes === sizeBytes) {
      response.onDelivered({ bytesSent: sizeBytes, complete: true });
      return;
    }
    const rest = movable.readFrom(movedBytes);
    if (rest === undefined) {
      const error = new ProxyError('bytes_gone', {
        detail: `what is stored ended after ${movedBytes} of ${sizeBytes} bytes`,
      });
      response.onDelivered({ bytesSent: movedBytes, complete: false, error });
      connection.cut();
      return;
    }
    writeTogether(connection, head.slice(takenBytes), rest);
    new FollowedExchange(connection, response, sizeBytes, this.#options.pace);
  }
}

const noContent: readonly Uint8Array[] = [];

/** A precedent, with as much of the head of its responses as stays the same. */
class RememberedAnswer {
  readonly precedent: Precedent;
  readonly isHead: boolean;
  #status = 0;
  #fields: Fields | undefined;
  #start = '';
  #hasDate = false;

  constructor(precedent: Precedent, isHead: boolean) {
    this.precedent = precedent;
    this.isHead = isHead;
  }

  /** What is sent of the body. Undefined where it has not the length that it says. */
  contentOf({ status, sizeBytes, chunks }: PrecedentResponse): readonly Uint8Array[] | undefined {
    if (this.isHead || status === 304) return noContent;
    let bytes = 0;
    for (const chunk of chunks) bytes += chunk.length;
    return bytes === sizeBytes ? chunks : undefined;
  }

  /** Undefined for fields that cannot be written. */
  headOf(response: PrecedentResponse, now: number, options: PrecedentRoadOptions): string | undefined {
    const { status, fields, contentRange, sizeBytes } = response;
    try {
      if (fields !== this.#fields || status !== this.#status) this.#begin(status, fields);
      const date = this.#hasDate ? '' : options.dateLine.at(now);
      const range = contentRange === undefined ? '' : formatLine('content-range', contentRange);
      const length = status === 304 ? '' : `Content-Length: ${sizeBytes}\r\n`;
      return `${this.#start}${range}${date}${length}${options.keepAlive}\r\n`;
    } catch {
      return undefined;
    }
  }

  #begin(status: number, fields: Fields): void {
    const { text, hasDate } = formatFieldLines(fields);
    this.#start = formatStatusLine(status) + text;
    this.#status = status;
    this.#fields = fields;
    this.#hasDate = hasDate;
  }
}
