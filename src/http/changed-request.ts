/** A request with other values in some places. */

import type { ProxyRequest } from './message.ts';

/** What may be another one. */
export type RequestChanges = Partial<Omit<ProxyRequest, 'signal' | 'sendInterim'>>;

/** A copy with these changes. Its signal is made when it is first asked for, as that of the original. */
export function changedRequest(request: ProxyRequest, changes: RequestChanges): ProxyRequest {
  return new ChangedRequest(request, changes);
}

/** A class, because what a listener gives is an object of a class too: a spread would leave out its getters. */
class ChangedRequest implements ProxyRequest {
  readonly method: ProxyRequest['method'];
  readonly scheme: ProxyRequest['scheme'];
  readonly authority: ProxyRequest['authority'];
  readonly target: ProxyRequest['target'];
  readonly version: ProxyRequest['version'];
  readonly fields: ProxyRequest['fields'];
  readonly body: ProxyRequest['body'];
  readonly bodySizeBytes: ProxyRequest['bodySizeBytes'];
  readonly peer: ProxyRequest['peer'];
  readonly receivedAt: ProxyRequest['receivedAt'];
  readonly takesMovable: boolean;
  readonly #original: ProxyRequest;

  constructor(original: ProxyRequest, changes: RequestChanges) {
    const { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt, takesMovable } =
      {
        ...original,
        ...changes,
      };
    this.method = method;
    this.scheme = scheme;
    this.authority = authority;
    this.target = target;
    this.version = version;
    this.fields = fields;
    this.body = body;
    this.bodySizeBytes = bodySizeBytes;
    this.peer = peer;
    this.receivedAt = receivedAt;
    this.takesMovable = takesMovable === true;
    this.#original = original;
  }

  get signal(): AbortSignal {
    return this.#original.signal;
  }

  sendInterim(interim: Parameters<ProxyRequest['sendInterim']>[0]): void {
    this.#original.sendInterim(interim);
  }
}
