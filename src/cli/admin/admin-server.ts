/** Which running Rangeway a command is for: where its admin listener is, and the token that it asks for. */

import { formatListenAddress, parseListenPlace } from '../../config/address.ts';
import { secretSource } from '../../config/values.ts';
import { readSecret } from '../../setup/secrets.ts';
import { exitCode } from '../exit-code.ts';
import { fail } from '../failure.ts';
import type { CliIo } from '../io.ts';

/** The flags that all commands for a running Rangeway have. */
export interface AdminFlags {
  readonly admin?: string | undefined;
  /** Where the token is, never the token. */
  readonly token?: string | undefined;
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

/** Where the listener is when nobody says. */
const defaultPlace = 'http://127.0.0.1:9180';

const placeVariable = 'RANGEWAY_ADMIN';
const tokenVariable = 'RANGEWAY_ADMIN_TOKEN';

/**
 * The server that the flags name, or the environment where they do not, with the token from its source. Prints why where there
 * is none. Never rejects.
 */
export async function chooseAdminServer({ admin, token }: AdminFlags, io: CliIo): Promise<AdminServer | NoServer> {
  const { [placeVariable]: fromEnvironment = '', [tokenVariable]: tokenThere = '' } = io.env;
  const stated = admin ?? (fromEnvironment === '' ? defaultPlace : fromEnvironment);
  const place = parseAdminPlace(stated);
  if (place === undefined) {
    const by = admin === undefined ? placeVariable : '--admin';
    const reason = `${by}: expected a URL, [host:]port such as "9180", or "unix:PATH", found ${JSON.stringify(stated)}`;
    return { kind: 'none', exitCode: fail(io, reason, exitCode.misused) };
  }
  const source = secretSource.safeParse(token ?? `env:${tokenVariable}`);
  if (!source.success) {
    // What was given is not repeated: it may be the token itself.
    return { kind: 'none', exitCode: fail(io, '--token: expected "env:NAME" or "file:PATH"', exitCode.misused) };
  }
  if (token === undefined && tokenThere === '') return { kind: 'server', place, token: undefined };
  try {
    return { kind: 'server', place, token: await readSecret(source.data, io.env) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: 'none', exitCode: fail(io, reason, exitCode.failed) };
  }
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
