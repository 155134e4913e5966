/** Who may pass: by address, and by credentials. */

import type { ProxyRequest } from '../http/message.ts';
import type { Routed } from '../routing/inquiry.ts';
import type { Client } from './client.ts';

/** A request that may pass. */
export interface Passed {
  /** Without the credentials that were for us, unless the origin is to get them. */
  readonly request: ProxyRequest;
  /** Where it goes: without the signature of its URL. */
  readonly routed: Routed;
  /** The name that its credentials belong to. */
  readonly user: string | undefined;
}

/** The checks of one route. */
export interface Access {
  /** Throws `ProxyError`: `client_forbidden`. */
  checkAddress(client: Client): void;
  /** Throws, or rejects with, `ProxyError`: `credentials_required`, `credentials_refused`. */
  checkCredentials(request: ProxyRequest, routed: Routed): Passed | Promise<Passed>;
}

/** Lets everybody pass. */
export const openAccess: Access = {
  checkAddress: () => {},
  checkCredentials: (request, routed) => ({ request, routed, user: undefined }),
};
