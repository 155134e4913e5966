/** The listener's side of an exchange over a wire. It releases a body only as far as the client reads. */

import { isDeepStrictEqual } from 'node:util';
import {
  type BodyStream,
  changedRequest,
  type Delivery,
  type Handler,
  type ProxyRequest,
  type ProxyResponse,
} from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { Completed } from '../clients/direct-client.ts';

/** The field that names the exchange of a request. It is removed before the handler. */
export const exchangeField = 'wire-exchange';

/** The port of every peer. It has no meaning, as without a wire. */
const peerPort = 40_000;

/** An exchange, from the start of the request until the listener has reported the end of the response. */
export class WireExchange {
  /** Resolves when the handler has got the request. */
  readonly arrived = Promise.withResolvers<void>();
  /** Resolves when the listener is done with the response. */
  readonly over = Promise.withResolvers<Delivery>();
  readonly #sent: Completed;
  readonly #now: () => number;
  #response: ProxyResponse | undefined;
  #saidAt = Number.NaN;
  #isOver = false;
  #gate: BodyGate | undefined;

  /** `now` returns epoch milliseconds. */
  constructor(sent: Completed, now: () => number) {
    this.#sent = sent;
    this.#now = now;
  }

  /** The handler's response, for comparison with the received one. */
  get response(): ProxyResponse | undefined {
    return this.#response;
  }

  /** The time of the handler's response, in epoch milliseconds. */
  get saidAt(): number {
    return this.#saidAt;
  }

  /** Whether the listener is done with the response. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Released bytes of the body; undefined where the body is not held back. */
  get releasedBytes(): number | undefined {
    return this.#gate?.releasedBytes;
  }

  /** Releases the next chunk, as soon as there is one. */
  want(): void {
    this.#gate?.want();
  }

  /** Releases the rest. */
  open(): void {
    this.#gate?.open();
  }

  /**
   * Passes a received request to the handler in the same tick, as if there were no wire. Calls `onFault` where it differs from the
   * sent request.
   */
  answer(
    handler: Handler,
    received: ProxyRequest,
    onFault: (fault: Error) => void,
  ): ProxyResponse | Promise<ProxyResponse> {
    const { peer, version, ...sent } = this.#sent;
    const fields = received.fields.filter(([name]) => name !== exchangeField);
    const { method, target, authority } = received;
    const arrived = { method, target, authority, fields };
    if (!isDeepStrictEqual(arrived, sent)) {
      onFault(new Error(`the request became ${JSON.stringify(arrived)}, and was ${JSON.stringify(sent)}`));
    }
    const response = handler(
      changedRequest(received, { fields, version, scheme: 'http', peer: { address: peer, port: peerPort } }),
    );
    this.arrived.resolve();
    return response instanceof Promise ? response.then((later) => this.#held(later)) : this.#held(response);
  }

  #held(response: ProxyResponse): ProxyResponse {
    this.#response = response;
    this.#saidAt = this.#now();
    const { body } = response;
    if (body.kind === 'stream') this.#gate = new BodyGate(body.stream);
    return {
      ...response,
      body: body.kind === 'stream' && this.#gate !== undefined ? { ...body, stream: this.#gate } : body,
      onDelivered: (delivery) => {
        response.onDelivered?.(delivery);
        this.#isOver = true;
        this.over.resolve(delivery);
      },
    };
  }
}

const nothing = new Uint8Array();

/** Holds back a body. Without it, the buffers of the connection would take bytes that a test wants to be unread. */
class BodyGate implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly #below: BodyStream;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #state: 'shut' | 'wanted' | 'open' | 'closed' = 'shut';
  #wake = (): void => {};
  /** Whether the next chunk is to be read, because a move was not possible. */
  #isToRead = false;
  releasedBytes = 0;

  readonly trailers: BodyStream['trailers'];

  constructor(below: BodyStream) {
    this.#below = below;
    this.trailers = below.trailers === undefined ? undefined : () => below.trailers?.() ?? [];
  }

  want(): void {
    if (this.#state === 'shut') this.#become('wanted');
  }

  open(): void {
    if (this.#state !== 'closed') this.#become('open');
  }

  close(): void {
    this.#become('closed');
    this.#below.close();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  moveTo(socket: number, head: Uint8Array): number {
    if (this.#state === 'shut' || this.#state === 'closed') return 0;
    const takenBytes = this.#below.moveTo?.(socket, head) ?? 0;
    this.#release(Math.max(0, takenBytes - head.length));
    return takenBytes;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    while (this.#state === 'shut') await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#state === 'closed') throw new ProxyError('client_gone', { detail: 'the body was closed' });
    this.#isToRead = !this.#isToRead;
    // An empty chunk makes the listener try a move first, now that bytes may be released.
    if (this.#isToRead) return { done: false, value: nothing };
    this.#iterator ??= this.#below[Symbol.asyncIterator]();
    const next = await this.#iterator.next();
    if (next.done === true) return { done: true, value: undefined };
    this.#release(next.value.length);
    return next;
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    await this.#iterator?.return?.();
    return { done: true, value: undefined };
  }

  #release(bytes: number): void {
    // An empty chunk does not reach the client, which keeps waiting.
    if (bytes > 0 && this.#state === 'wanted') this.#state = 'shut';
    if (bytes > 0) this.#isToRead = false;
    this.releasedBytes += bytes;
  }

  #become(state: 'wanted' | 'open' | 'closed'): void {
    this.#state = state;
    this.#wake();
  }
}
