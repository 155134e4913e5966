/** The request of an exchange, as a handler sees it. */

import type { Fields } from '../http/fields.ts';
import type { BodyStream, InterimResponse, Peer, ProxyRequest } from '../http/message.ts';
import type { RequestHead } from './listener.ts';

/** What a request asks of its exchange. */
export interface RequestOwner {
  /** Made when it is first asked for: most requests are answered before anybody needs it. */
  readonly signal: AbortSignal;
  sendInterim(interim: InterimResponse): void;
}

/** A class, because a getter in an object literal would give every request a hidden class of its own. */
export class ReceivedRequest implements ProxyRequest {
  readonly method: string;
  readonly scheme: 'http' | 'https';
  readonly authority: string;
  readonly target: string;
  readonly version: string;
  readonly fields: Fields;
  readonly body: BodyStream | undefined;
  readonly bodySizeBytes: number | undefined;
  readonly peer: Peer;
  readonly receivedAt: number;
  readonly takesMovable: boolean;
  readonly #owner: RequestOwner;

  constructor(
    head: RequestHead,
    body: BodyStream | undefined,
    bodySizeBytes: number | undefined,
    owner: RequestOwner,
    takesMovable = false,
  ) {
    this.method = head.method;
    this.scheme = head.scheme;
    this.authority = head.authority;
    this.target = head.target;
    this.version = head.version;
    this.fields = head.fields;
    this.body = body;
    this.bodySizeBytes = bodySizeBytes;
    this.peer = head.peer;
    this.receivedAt = head.receivedAt;
    this.takesMovable = takesMovable;
    this.#owner = owner;
  }

  get signal(): AbortSignal {
    return this.#owner.signal;
  }

  sendInterim(interim: InterimResponse): void {
    this.#owner.sendInterim(interim);
  }
}
