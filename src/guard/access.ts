/** Who may pass: by address, and by credentials. */

import type { Fields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Routed } from '../routing/inquiry.ts';
import type { Client } from './client.ts';
import { type CredentialRules, createCredentialCheck, createTokenCheck, type Passed } from './credentials.ts';
import type { PeerList } from './peers.ts';
import { forOneClient } from './privacy.ts';

/** The checks of one route. */
export interface Access {
  /** Whether every client passes, and no response changes. */
  readonly isOpen: boolean;
  /**
   * The user of a client that may pass, by its lines of Authorization and X-API-Key; undefined where `checkAddress` and
   * `checkCredentials` have to decide. Absent where more of a request than that may let it pass.
   */
  readonly passAtOnce:
    | ((client: Pick<Client, 'address'>, credentials: Fields) => { readonly user: string | undefined } | undefined)
    | undefined;
  /** Throws `ProxyError`: `client_forbidden`. */
  checkAddress(client: Client): void;
  /**
   * Throws, or rejects with, `ProxyError`: `credentials_required`, `credentials_refused`, `key_refused`,
   * `signature_refused`; `malformed_request`; `too_many_requests` and `credentials_unchecked`, where passwords wait to be
   * checked; `client_gone`.
   */
  checkCredentials(request: ProxyRequest, routed: Routed, client: Client): Passed | Promise<Passed>;
  /** A response of the route with what keeps it from those who have not passed. */
  present(response: ProxyResponse): ProxyResponse;
}

/** What a route asks of those who come. */
export interface AccessRules {
  /** Only these addresses may pass; undefined lets all. */
  readonly allow: PeerList | undefined;
  /** These may not, whatever `allow` says; undefined forbids none. */
  readonly deny: PeerList | undefined;
  /** Undefined asks for none. */
  readonly credentials: CredentialRules | undefined;
}

/**
 * Creates the checks. A client whose address nobody tells, such as the peer of a Unix socket, passes where there is no list
 * of those who may. Where credentials are asked for, responses are for the client's own cache only; addresses change
 * nothing about that, for a cache between here and the client may be one of them.
 */
export function createAccess({ allow, deny, credentials }: AccessRules): Access {
  const isForbidden = (address: string) => deny?.(address) === true || allow?.(address) === false;
  const passByToken = credentials === undefined ? () => ({ user: undefined }) : createTokenCheck(credentials);
  return {
    passAtOnce: passByToken && (({ address }, lines) => (isForbidden(address) ? undefined : passByToken(lines))),
    isOpen: allow === undefined && deny === undefined && credentials === undefined,
    checkAddress({ address }) {
      if (isForbidden(address)) throw new ProxyError('client_forbidden');
    },
    checkCredentials:
      credentials === undefined
        ? (request, routed) => ({ request, routed, user: undefined })
        : createCredentialCheck(credentials),
    present: credentials === undefined ? (response) => response : forOneClient,
  };
}
