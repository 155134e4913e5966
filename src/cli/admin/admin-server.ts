/** Which running Rangeway a command is for: where its admin listener is, and the token that it asks for. */

import { formatListenAddress, parseListenPlace } from '../../config/address.ts';

/** The flags that all commands for a running Rangeway have. */
export interface AdminFlags {
  readonly admin?: string | undefined;
  /** Where the token is, never the token. */
  readonly token?: string | undefined;
  /** The configuration file of the server. */
  readonly config?: string | undefined;
  /** The directory of its store. */
  readonly dir?: string | undefined;
}

/** Where an admin listener is. */
export type AdminPlace = { readonly kind: 'url'; readonly url: URL } | { readonly kind: 'unix'; readonly path: string };

/** Whom to ask. */
export interface AdminServer {
  readonly kind: 'server';
  readonly place: AdminPlace;
  readonly token: string | undefined;
}

/** Nobody to ask; why was printed. */
export interface NoServer {
  readonly kind: 'none';
  readonly exitCode: number;
}

/** A URL, `[host:]port`, or `unix:PATH`; undefined for other text. */
export function parseAdminPlace(text: string): AdminPlace | undefined {
  if (/^https?:\/\//i.test(text)) return parseAdminUrl(text);
  const place = parseListenPlace(text);
  if (place?.kind === 'unix') return place;
  if (place?.kind !== 'tcp' || place.port === 0) return undefined;
  return { kind: 'url', url: new URL(`http://${formatListenAddress(place)}`) };
}

/** The place for people. */
export function formatAdminPlace(place: AdminPlace): string {
  return place.kind === 'unix' ? `unix:${place.path}` : place.url.href.replace(/\/$/, '');
}

/** A path in it goes before every path, for those who have put a server before the listener. */
function parseAdminUrl(text: string): AdminPlace | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const hasMore =
    url === undefined || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '';
  return hasMore ? undefined : { kind: 'url', url };
}
