/**
 * Recognises connection-bound authentication: NTLM, and Negotiate (RFC 4559), authenticate the connection and not the request, so
 * whatever comes over it later is done as the user that logged in. No two users may share such a connection.
 */

import { type BoundClient, bindConnection, type ClientConnection } from '../http/client-connection.ts';
import type { Field, Fields } from '../http/fields.ts';

/** The schemes, at the beginning of credentials. */
const credentialsPattern = /^(?:ntlm|negotiate|kerberos)(?![^\s,])/i;

/** The same in a list of challenges. A quoted parameter that looks like one only costs a connection. */
const challengePattern = /(?:^|,)\s*(?:ntlm|negotiate|kerberos)(?![^\s,])/i;

/** Checks whether a request has credentials that authenticate its connection. */
export function hasConnectionCredentials(requestFields: Fields): boolean {
  return requestFields.some(isConnectionCredentials);
}

/** Checks whether a field of a request has credentials that authenticate its connection. */
export function isConnectionCredentials([name, value]: Field): boolean {
  return (name === 'authorization' || name === 'proxy-authorization') && credentialsPattern.test(value);
}

/** Checks whether a response challenges the client to authenticate its connection. */
export function isConnectionChallenge(responseFields: Fields): boolean {
  return responseFields.some(
    ([name, value]) => (name === 'www-authenticate' || name === 'proxy-authenticate') && challengePattern.test(value),
  );
}

/** Checks whether a response says that its connection is, or is about to be, authenticated; Persistent-Auth is Microsoft's field. */
export function isConnectionBinding(responseFields: Fields): boolean {
  return responseFields.some(([name]) => name === 'persistent-auth') || isConnectionChallenge(responseFields);
}

/**
 * Returns the owner of the connections to origins that a request needs for itself; undefined where it shares them with all. Credentials
 * that authenticate the connection bind it to the client from now on.
 */
export function ownerOf(
  requestFields: Fields,
  connection: ClientConnection | undefined,
  client: string,
): BoundClient | undefined {
  if (connection === undefined) return undefined;
  return hasConnectionCredentials(requestFields) ? bindConnection(connection, client) : connection.owners?.get(client);
}
