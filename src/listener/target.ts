/** The request target and its authority (RFC 9112 §3.2), read without a URL parser that would rewrite them. */

import { isIPv6 } from 'node:net';

/** A target in origin-form or `*`, with the authority if the target named one; or why it is none. */
export type TargetReading =
  | { readonly kind: 'target'; readonly target: string; readonly authority: string | undefined }
  | { readonly kind: 'refused'; readonly reason: string };

/** RFC 3986 §3.3 and §3.4, but any visible character: some clients encode less than they should. */
const originForm = /^\/[\x21\x22\x24-\x7e]*$/;
const visible = /^[\x21-\x7e]+$/;
const absoluteForm = /^(?<scheme>[a-z][a-z0-9+.-]*):\/\/(?<authority>[^/?]*)(?<rest>.*)$/i;
/** A name without an encoded byte and without a port, as most are. */
const plainName = /^[\w.-]+$/;
/** A host and its port, which is at most 65535. */
const hostAndPort =
  /^(?:\[(?:[0-9a-f:.]+|v[0-9a-f]+\.[\w.~!$&'()*+,;=:-]+)\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})+)(?::(?:[0-9]{0,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$/i;

/**
 * Reads a request target in origin-form, in absolute-form of the given scheme, or in asterisk-form for OPTIONS. The target
 * URI of another scheme is not one of this connection's resources (RFC 9110 §7.4). A path that is missing from the
 * absolute-form becomes `/`, or `*` for OPTIONS (RFC 9112 §3.2.4).
 */
export function readTarget(method: string, text: string, scheme: 'http' | 'https'): TargetReading {
  if (originForm.test(text)) return { kind: 'target', target: text, authority: undefined };
  if (!visible.test(text)) return refused('the target has characters that a URI cannot have');
  if (text.includes('#')) return refused('the target has a fragment');
  if (text === '*') {
    return method === 'OPTIONS'
      ? { kind: 'target', target: '*', authority: undefined }
      : refused('* is for OPTIONS only');
  }
  const parts = absoluteForm.exec(text)?.groups;
  if (parts === undefined) return refused('the target is no path and no URI');
  const { scheme: givenScheme = '', authority = '', rest = '' } = parts;
  if (givenScheme.toLowerCase() !== scheme) return refused(`the target is no ${scheme} URI`);
  if (!isAuthority(authority)) return refused('the target has no valid authority');
  if (rest.startsWith('/')) return { kind: 'target', target: rest, authority };
  return { kind: 'target', target: rest === '' && method === 'OPTIONS' ? '*' : `/${rest}`, authority };
}

/**
 * Whether a text is a host and an optional port (RFC 9110 §7.2, RFC 3986 §3.2.2). An empty host is none that an http URI
 * may have (RFC 9110 §4.2.1), and user information is taken for an attack (§4.2.4).
 */
export function isAuthority(text: string): boolean {
  if (plainName.test(text)) return true;
  if (!hostAndPort.test(text)) return false;
  // IPvFuture has a grammar alone, which the expression above holds.
  return !text.startsWith('[') || /^\[v/i.test(text) || isIPv6(text.slice(1, text.indexOf(']')));
}

function refused(reason: string): TargetReading {
  return { kind: 'refused', reason };
}
