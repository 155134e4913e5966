/** The listener's side of an exchange over a wire: it lets a body flow only as far as its client reads. */

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

/** The field by which a request says which exchange it belongs to. No handler sees it. */
export const exchangeField = 'wire-exchange';

/** Peers have a port of no meaning, as without a wire. */
const peerPort = 40_000;

/** From the moment a client begins to send until the listener has told the end of the response. */
export class WireExchange {
  /** Resolves when the handler has the request. */
  readonly arrived = Promise.withResolvers<void>();
  /** Resolves when the listener is done with the response. */
  readonly over = Promise.withResolvers<Delivery>();
  readonly #sent: Completed;
  readonly #now: () => number;
  #response: ProxyResponse | undefined;
  #saidAt = Number.NaN;
  #isOver = false;
  #gate: BodyGate | undefined;

  /** `now` tells epoch milliseconds. */
  constructor(sent: Completed, now: () => number) {
    this.#sent = sent;
    this.#now = now;
  }

  /** What the handler said, to compare what came with. */
  get response(): ProxyResponse | undefined {
    return this.#response;
  }

  /** When the handler said it. */
  get saidAt(): number {
    return this.#saidAt;
  }

  /** Whether the listener is done with the response. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Bytes of body that have been let through; undefined where nothing is held. */
  get releasedBytes(): number | undefined {
    return this.#gate?.releasedBytes;
  }

  /** Lets the next chunk through; where none is there yet, as soon as one is. */
  want(): void {
    this.#gate?.want();
  }

  /** Lets the rest through. */
  open(): void {
    this.#gate?.open();
  }

  /**
   * Gives a request to the handler, in the tick in which it came, as if it had come without a wire; `onFault` is told where
   * it is another one than was sent.
   */
  answer(
    handler: Handler,
    received: ProxyRequest,
    onFault: (fault: Error) => void,
  ): ProxyResponse | Promise<ProxyResponse> {
    const { peer, version, ...sent } = this.#sent;
    const fields = received.fields.filter(([name]) => name !== exchangeField);
    const { method, target, authority } = received;
    const came = { method, target, authority, fields };
    if (!isDeepStrictEqual(came, sent)) {
      onFault(new Error(`the request became ${JSON.stringify(came)}, and was ${JSON.stringify(sent)}`));
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

/** Without it, the buffers of the connection would swallow what a test wants to be unread. */
class BodyGate implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly #below: BodyStream;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #state: 'shut' | 'wanted' | 'open' | 'closed' = 'shut';
  #wake = (): void => {};
  /** Whether what comes next is to be read: it was found that it cannot be moved. */
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
    // Whoever moves what can be moved is asked to try it now that something may come.
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
    // The client sees nothing of a chunk without bytes, and goes on waiting.
    if (bytes > 0 && this.#state === 'wanted') this.#state = 'shut';
    if (bytes > 0) this.#isToRead = false;
    this.releasedBytes += bytes;
  }

  #become(state: 'wanted' | 'open' | 'closed'): void {
    this.#state = state;
    this.#wake();
  }
}
