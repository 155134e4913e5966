/** The origin of random traffic: one file with versions, which answers in the manner of the plan. */

import { createHash } from 'node:crypto';
import type { Span } from '../../../src/bytes/span.ts';
import { type Fields, fieldValue } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { formatHttpDate } from '../../../src/semantics/http-date.ts';
import type { FakeExchange, FakeHead, FakeOrigin } from '../origins/fake-origin.ts';
import { patternBytes } from '../values/pattern-body.ts';
import { isUnsafe } from './traffic-check.ts';
import { contentOf } from './traffic-content.ts';
import { ownLifetimes, type Plan } from './traffic-plan.ts';

/** The kind of a response, where the origin has a choice. */
export interface Choice {
  /** Index of the waiting request (modulo their number). */
  readonly who: number;
  readonly isSized: boolean;
  readonly is304: boolean;
  /** Whether a `flapping` origin sends the whole body for a range. */
  readonly isWhole: boolean;
  /** Whether a safe request is answered with the version at the time of its arrival. */
  readonly isEarly: boolean;
}

/** A response with a body that the origin has begun. */
export interface Transfer {
  readonly exchange: FakeExchange;
  readonly version: number;
  /** Offset of the next piece. */
  sent: number;
  /** Exclusive end of the body. */
  readonly end: number;
  /** Number of pieces that were not read yet. */
  unread: number;
  isOver: boolean;
}

/** Answers the requests at a fake origin. */
export class TrafficOrigin {
  /** All responses with a body that were begun. */
  readonly transfers: Transfer[] = [];
  readonly #plan: Plan;
  readonly #origin: FakeOrigin;
  readonly #now: () => number;
  /** The version at the time of arrival of each request. */
  readonly #seen = new WeakMap<FakeExchange, number>();
  /** The current version of the bytes, from 1. */
  version: number;

  /** `now` returns epoch milliseconds. */
  constructor(plan: Plan, origin: FakeOrigin, version: number, now: () => number) {
    this.#plan = plan;
    this.#origin = origin;
    this.#now = now;
    this.version = version;
  }

  /** Answers the next request, if any, with an error or a status without a body. */
  async refuse(by: ProxyError | number): Promise<void> {
    if (this.#origin.untaken === 0) return;
    const exchange = await this.#origin.next();
    if (typeof by === 'number') exchange.respond({ status: by, fields: { 'x-refused': '1' } }, new Uint8Array());
    else exchange.fail(by);
  }

  /** Finishes all running transfers. */
  finishAll(): void {
    for (const transfer of this.transfers) if (!transfer.isOver) this.finish(transfer);
  }

  /** Notes the version at which waiting requests have arrived. */
  look(): void {
    for (const exchange of this.#origin.waiting) {
      if (!this.#seen.has(exchange)) this.#seen.set(exchange, this.version);
    }
  }

  /** Answers a waiting request, if any. */
  async answer({ who, isSized, is304, isWhole, isEarly }: Choice): Promise<void> {
    if (this.#origin.untaken === 0) return;
    this.look();
    const exchange = await this.#origin.next(who);
    const { method, fields } = exchange.request;
    if (isUnsafe({ method })) this.version += 1;
    const isPast = isEarly && !isUnsafe({ method });
    const version = (isPast ? this.#seen.get(exchange) : undefined) ?? this.version;
    const { size } = this.#plan;
    const etag = this.#etag(version);
    const head = this.#head(exchange, version);
    const sized = isSized ? { ...head, 'content-length': String(size) } : head;
    const isUnchanged = is304 && etag !== undefined && fieldValue(fields, 'if-none-match') === etag;
    const isObeyed = method === 'GET' && !(isWhole && this.#plan.ranges === 'flapping');
    const part = isObeyed ? this.#part(fields, version) : undefined;
    if (method === 'PUT') exchange.respond({ status: 204, fields: head, framing: 'none' }, new Uint8Array());
    else if (isUnchanged) exchange.respond({ status: 304, fields: head, framing: 'none' }, new Uint8Array());
    else if (method === 'HEAD') exchange.head({ fields: sized, framing: 'none' });
    else if (part === 'unsatisfied') exchange.respond({ status: 416, fields: head }, new Uint8Array());
    else if (part !== undefined) this.#sendPart(exchange, head, part, version);
    else this.#begin(exchange, { fields: sized }, { start: 0, end: size }, version);
  }

  /** Returns the fields of any response. */
  #head({ request: { method, fields, target } }: FakeExchange, version: number): Record<string, string> {
    const { isTold, varies } = this.#plan;
    const etag = this.#etag(version);
    return {
      'x-version': String(version),
      'content-type': isTold ? `text/plain; version=${version}` : 'text/plain',
      'x-client': fieldValue(fields, 'x-client') ?? '',
      'x-authorized': fieldValue(fields, 'authorization') === undefined ? '0' : '1',
      date: formatHttpDate(this.#now()),
      ...this.#lifetimeFields(),
      ...this.#groupFields(method),
      ...(method === 'POST' ? { 'content-location': target } : {}),
      ...(etag === undefined ? {} : { etag }),
      ...(varies ? { vary: 'accept-language' } : {}),
      ...this.#digestFields(version),
    };
  }

  #lifetimeFields(): Record<string, string> {
    const { lifetime, isTargeted } = this.#plan;
    if (lifetime === '') return {};
    if (!isTargeted) return { 'cache-control': lifetime };
    const contrary = ownLifetimes.includes(lifetime) ? 'public, max-age=9999' : 'no-store';
    return { 'cache-control': contrary, 'cdn-cache-control': lifetime };
  }

  #groupFields(method: string): Record<string, string> {
    if (!this.#plan.isGrouped) return {};
    return isUnsafe({ method })
      ? { 'cache-groups': '"g"', 'cache-group-invalidation': '"g"' }
      : { 'cache-groups': '"g"' };
  }

  #digestFields(version: number): Record<string, string> {
    const { digest, size } = this.#plan;
    if (digest === 'none') return {};
    const bytes = digest === 'right' ? contentOf(this.#plan, version) : patternBytes(0, size, 999);
    return { 'repr-digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:` };
  }

  #etag(version: number): string | undefined {
    const { validator } = this.#plan;
    return validator === 'none' ? undefined : `${validator === 'weak' ? 'W/' : ''}"${version}"`;
  }

  /** Returns the span that the origin sends for a Range; undefined for the whole body. */
  #part(fields: Fields, version: number): Span | 'unsatisfied' | undefined {
    const { size, unit, ranges: manner } = this.#plan;
    const ifRange = fieldValue(fields, 'if-range');
    const [, first = '', last = ''] = /^bytes=([0-9]*)-([0-9]*)$/.exec(fieldValue(fields, 'range') ?? '') ?? [];
    const isAsked = first !== '' || last !== '';
    if (manner === 'none' || !isAsked || (ifRange !== undefined && ifRange !== this.#etag(version))) return undefined;
    const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
    const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
    if (start >= end || manner === 'unsatisfied') return 'unsatisfied';
    if (manner === 'short') return { start, end: Math.min(end, start + 300 * unit) };
    if (manner === 'early') return { start: Math.max(0, start - 100 * unit), end };
    return manner === 'elsewhere' ? { start: size - 1, end: size } : { start, end };
  }

  #sendPart(exchange: FakeExchange, head: Record<string, string>, part: Span, version: number): void {
    const { size, unit, ranges: manner } = this.#plan;
    const { etag: _, ...unnamed } = head;
    const total = manner === 'other-length' ? size + 1 : size;
    const fields = {
      ...(manner === 'unnamed' ? unnamed : head),
      'content-length': String(part.end - part.start),
      'content-range': `bytes ${part.start}-${part.end - 1}/${total}`,
    };
    if (manner === 'long' && part.end - part.start > 400 * unit)
      this.#sendTooMuch(exchange, fields, part.start, version);
    else this.#begin(exchange, { status: 206, fields }, part, version);
  }

  /** Sends more bytes than the head announces; the excess bytes are foreign. */
  #sendTooMuch(exchange: FakeExchange, fields: Readonly<Record<string, string>>, start: number, version: number): void {
    const { size, unit } = this.#plan;
    const { 'content-length': _, ...rest } = fields;
    const end = start + 300 * unit;
    const content = contentOf(this.#plan, version);
    exchange.head({ status: 206, fields: { ...rest, 'content-range': `bytes ${start}-${end - 1}/${size}` } });
    void exchange.send(content.slice(start, end - 1));
    void exchange.send(Buffer.concat([content.subarray(end - 1, end), patternBytes(0, 99, 77)]));
    void exchange.send(patternBytes(0, 900 * unit, 77));
    exchange.end();
  }

  #begin(exchange: FakeExchange, head: FakeHead, { start, end }: Span, version: number): void {
    exchange.head(head);
    this.transfers.push({ exchange, version, sent: start, end, unread: 0, isOver: false });
  }

  /** Gives the file a new version. */
  change(): void {
    this.version += 1;
  }

  /** Applies `act` to one of the running transfers. */
  transfer(who: number, act: (transfer: Transfer) => void): void {
    const running = this.transfers.filter(({ isOver }) => !isOver);
    const transfer = running[who % Math.max(1, running.length)];
    if (transfer !== undefined) act(transfer);
  }

  /** Sends up to `count` more bytes. */
  continue(transfer: Transfer, count: number): void {
    const end = Math.min(transfer.end, transfer.sent + count);
    const piece = contentOf(this.#plan, transfer.version).slice(transfer.sent, end);
    transfer.sent = end;
    transfer.unread += 1;
    void transfer.exchange.send(piece).then(() => {
      transfer.unread -= 1;
    });
  }

  /** Breaks the transfer off. */
  break(transfer: Transfer): void {
    transfer.isOver = true;
    transfer.exchange.fail(new ProxyError('origin_reset'));
  }

  /** Sends the rest, and ends the body. */
  finish(transfer: Transfer): void {
    this.continue(transfer, this.#plan.size);
    transfer.isOver = true;
    transfer.exchange.end();
  }
}
