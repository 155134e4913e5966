/** The authority of a request in its normal form, the only one that routing, the key and the origin see. */

/** Host and port: a name, an IPv6 address, which the URL parser checks, or IPvFuture (RFC 3986 §3.2.2). */
const authorityPattern = /^([a-z0-9._~-]+|\[(?:[0-9a-f:.]+|v[0-9a-f]+\.[\w.~!$&'()*+,;=:-]+)\])(?::(\d{0,5}))?$/;

const defaultPorts = { http: 80, https: 443 } as const;

/**
 * The normal form of an authority (RFC 3986 §6.2.2.1, §6.2.3; RFC 9110 §4.2.3): lower case, no port where it is empty or the
 * scheme's default; addresses are not rewritten. Undefined for what is none, an empty text included: user information
 * (RFC 9110 §4.2.4), percent-encoded names, zone identifiers and ports out of range are refused.
 */
export function normaliseAuthority(authority: string, scheme: 'http' | 'https'): string | undefined {
  const [, host, portText] = authorityPattern.exec(authority.toLowerCase()) ?? [];
  if (host === undefined) return undefined;
  if (host.startsWith('[') && !host.startsWith('[v') && !URL.canParse(`http://${host}`)) return undefined;
  const port = portText === undefined || portText === '' ? defaultPorts[scheme] : Number(portText);
  if (port < 1 || port > 65_535) return undefined;
  return port === defaultPorts[scheme] ? host : `${host}:${port}`;
}

/** The host of a normalised authority, brackets included; its port left out. */
export function hostOf(authority: string): string {
  return authority.replace(/:\d+$/, '');
}

/** The port that a normalised authority names, or the scheme's. */
export function portOf(authority: string, scheme: 'http' | 'https'): number {
  const port = /:(\d+)$/.exec(authority)?.[1];
  return port === undefined ? defaultPorts[scheme] : Number(port);
}
