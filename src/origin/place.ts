/** Where an origin is: what its URL says of its host, of its path, and of a Unix socket. */

const unixProtocol = 'unix:';

/** The Host of an origin at a Unix socket, which has no name of its own. */
const unixHost = 'localhost';

/** The path of the Unix socket that a URL such as `unix:/run/app.sock` names; undefined for other URLs. */
export function socketPathOf(url: URL): string | undefined {
  return url.protocol === unixProtocol ? url.pathname : undefined;
}

/** The origin's own authority, as its Host field names it (RFC 9110 §7.2). */
export function hostOfOrigin(url: URL): string {
  return url.protocol === unixProtocol ? unixHost : url.host;
}

/** The path that is put before every path, without a slash at its end; empty for a Unix socket. */
export function basePathOf(url: URL): string {
  return url.protocol === unixProtocol ? '' : url.pathname.replace(/\/$/, '');
}
