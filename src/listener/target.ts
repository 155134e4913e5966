/** The request target and its authority (RFC 9112 §3.2), read without a URL parser that would rewrite them. */

import { isIPv6 } from 'node:net';

/** A target in origin-form or `*`, with the authority if the target named one; or why it is none. */
export type TargetReading =
  | { readonly kind: 'target'; readonly target: string; readonly authority: string | undefined }
  | { readonly kind: 'refused'; readonly reason: string };

const visible = /^[\x21-\x7e]+$/;
const absoluteForm = /^(?<scheme>[a-z][a-z0-9+.-]*):\/\/(?<authority>[^/?]*)(?<rest>.*)$/i;
const host = /^(?:\[[0-9a-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})+)(?::(?<port>[0-9]{0,5}))?$/i;
const highestPort = 65_535;

/**
 * Reads a request target in origin-form, in absolute-form of the given scheme, or in asterisk-form for OPTIONS. The target
 * URI of another scheme is not one of this connection's resources (RFC 9110 §7.4). A path that is missing from the
 * absolute-form becomes `/`, or `*` for OPTIONS (RFC 9112 §3.2.4).
 */
export function readTarget(method: string, text: string, scheme: 'http' | 'https'): TargetReading {
  if (!visible.test(text)) return refused('the target has characters that a URI cannot have');
  if (text.includes('#')) return refused('the target has a fragment');
  if (text.startsWith('/')) return { kind: 'target', target: text, authority: undefined };
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
  const parts = host.exec(text);
  if (parts === null) return false;
  if (text.startsWith('[') && !isIPv6(text.slice(1, text.indexOf(']')))) return false;
  const { port = '0' } = parts.groups ?? {};
  return Number(port) <= highestPort;
}

function refused(reason: string): TargetReading {
  return { kind: 'refused', reason };
}
