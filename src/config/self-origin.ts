/** Recognises an origin that is one of our own listeners: each request would go round in a circle. */

import { normalize } from 'node:path';
import { formatListenPlace, type ListenPlace } from './address.ts';

/** What is wrong with one origin, and its path in the configuration. */
export interface SelfOrigin {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Every origin, and alternative, that is one of the listeners. */
export function selfOrigins(
  routes: readonly { readonly origin: { readonly url: string; readonly alternatives: readonly string[] } }[],
  listen: readonly { readonly address: ListenPlace }[],
): SelfOrigin[] {
  const places = listen.map(({ address }) => address);
  return routes.flatMap(({ origin }, index) =>
    [origin.url, ...origin.alternatives].flatMap((url, at) => {
      const own = findOwnListener(url, places);
      const place = places[own];
      if (place === undefined) return [];
      const option = at === 0 ? ['url'] : ['alternatives', at - 1];
      const message = `is listen[${own}], ${formatListenPlace(place)}: Rangeway would be its own origin; give the address of the server behind it`;
      return [{ path: ['routes', index, 'origin', ...option], message }];
    }),
  );
}

/**
 * The listener that an origin URL leads to, by its index, or -1. Only what is certain from the configuration counts: the same
 * Unix socket, or the same port at the same host, where `localhost` and the loopback addresses stand for each other and a
 * listener on all addresses (`0.0.0.0`, `::`) includes them. Loops over other names are refused when a request makes one (508).
 */
export function findOwnListener(originUrl: string, listeners: readonly ListenPlace[]): number {
  if (originUrl.startsWith('unix:')) {
    const path = originUrl.slice('unix:'.length);
    return listeners.findIndex((each) => each.kind === 'unix' && normalize(each.path) === normalize(path));
  }
  const { protocol, hostname, port } = new URL(originUrl);
  const originPort = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  const host = hostname.replace(/^\[|\]$/g, '');
  return listeners.findIndex(
    (each) => each.kind === 'tcp' && each.port === originPort && isSameHost(each.host.toLowerCase(), host),
  );
}

function isSameHost(listenHost: string, originHost: string): boolean {
  if (listenHost === originHost) return true;
  if (listenHost === '0.0.0.0' || listenHost === '::') return isLoopback(originHost) || originHost === listenHost;
  // The name may be looked up as either address; both lead to this machine.
  return (
    (listenHost === 'localhost' && ['127.0.0.1', '::1'].includes(originHost)) ||
    (originHost === 'localhost' && ['127.0.0.1', '::1'].includes(listenHost))
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d+){3}$/.test(host);
}
