/**
 * Finds options that contradict each other: two listeners at one place, two routes with the same match or name, an origin that is
 * one of our own listeners.
 */

import { normalize } from 'node:path';
import { formatListenPlace, isLoopback, type ListenPlace } from './address.ts';

/** A problem of one listener. */
interface ListenConflict {
  readonly index: number;
  readonly message: string;
}

/**
 * Returns every listener at the place of an earlier one. Port 0 conflicts with nothing: it is another port each time. Each socket
 * that systemd passes is for one listener.
 */
export function findListenConflicts(places: readonly ListenPlace[]): ListenConflict[] {
  return places.flatMap((place, index) => {
    const earlier = places.slice(0, index).findIndex((other) => isSamePlace(other, place));
    if (earlier < 0) return [];
    return [
      { index, message: `listen[${earlier}] listens on ${formatListenPlace(places[earlier] as ListenPlace)} already` },
    ];
  });
}

function isSamePlace(one: ListenPlace, other: ListenPlace): boolean {
  if (one.kind === 'tcp' && other.kind === 'tcp') {
    return one.port !== 0 && one.port === other.port && one.host.toLowerCase() === other.host.toLowerCase();
  }
  if (one.kind === 'unix' && other.kind === 'unix') return normalize(one.path) === normalize(other.path);
  if (one.kind !== 'systemd' || other.kind !== 'systemd') return false;
  return one.name === undefined || other.name === undefined || one.name === other.name;
}

interface MatchedRoute {
  readonly name?: string | undefined;
  readonly match?:
    | { readonly hosts?: readonly string[] | undefined; readonly pathPrefix?: string | undefined }
    | undefined;
  readonly stripPathPrefix?: boolean | undefined;
}

/** A problem of one route; `path` is within the route. */
interface MatchConflict {
  readonly index: number;
  readonly path: readonly string[];
  readonly message: string;
}

/**
 * Returns every route that repeats the match or the name of an earlier one, or strips a prefix that it does not have. The match
 * of a route with another problem (`isWrong`) may not be the intended one, so later routes may repeat it. An undefined element is
 * a route whose match cannot be read; it conflicts with nothing.
 */
export function findMatchConflicts(
  routes: readonly (MatchedRoute | undefined)[],
  isWrong: (index: number) => boolean,
): MatchConflict[] {
  const conflicts: MatchConflict[] = [];
  const names = new Map<string, number>();
  const matches = new Map<string, number>();
  for (const [index, route] of routes.entries()) {
    if (route === undefined) continue;
    const namesake = route.name === undefined ? undefined : names.get(route.name);
    if (namesake !== undefined) {
      conflicts.push({ index, path: ['name'], message: `is the name of routes[${namesake}] too` });
    }
    if (route.name !== undefined && namesake === undefined) names.set(route.name, index);
    // The claims of a wrong route are not kept.
    const twin = claimMatch(isWrong(index) ? new Map(matches) : matches, index, route);
    if (twin !== undefined) {
      conflicts.push({ index, path: ['match'], message: `routes[${twin.index}] serves ${twin.what} too` });
    }
    if (route.stripPathPrefix === true && route.match?.pathPrefix === undefined) {
      conflicts.push({ index, path: ['stripPathPrefix'], message: 'needs match.pathPrefix' });
    }
  }
  return conflicts;
}

/** Records what a route serves, host by host. Returns the first claim that an earlier route already has. */
function claimMatch(claimed: Map<string, number>, index: number, { match }: MatchedRoute) {
  let twin: { index: number; what: string } | undefined;
  const paths = match?.pathPrefix ?? '/';
  const hosts = match?.hosts?.map((host) => `"${host}"`) ?? ['every host'];
  for (const host of hosts) {
    const what = `${paths === '/' ? 'every path' : `paths under "${paths}"`} of ${host}`;
    const earlier = claimed.get(what);
    if (earlier === undefined) claimed.set(what, index);
    else if (earlier !== index) twin ??= { index: earlier, what };
  }
  return twin;
}

/** A problem of one origin, with its path in the configuration. */
interface SelfOrigin {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Returns every origin and alternative that is one of the listeners. */
export function findSelfOrigins(
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
 * Returns the index of the listener that an origin URL leads to, or -1. Only certain cases count: the same Unix socket, or the
 * same port at the same host. `localhost` and the loopback addresses stand for each other, and a listener on all addresses
 * (`0.0.0.0`, `::`) includes them. A loop over other names is refused when a request makes it (508).
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
