/** Parses the flags of commands for a running server: its admin listener, and the URL, range and fields of a request. */

import { InvalidArgumentError } from 'commander';
import { formatListenAddress, isLoopback, parseListenPlace } from '../../config/address.ts';

/** The flags that all commands for a running Rangeway have. */
export interface AdminFlags {
  readonly admin?: string | undefined;
  /** Where the token is (`env:NAME` or `file:PATH`), never the token itself. */
  readonly token?: string | undefined;
  /** The configuration file of the server. */
  readonly config?: string | undefined;
  /** The store directory of the server. */
  readonly dir?: string | undefined;
}

/** Where an admin listener is. */
export type AdminPlace = { readonly kind: 'url'; readonly url: URL } | { readonly kind: 'unix'; readonly path: string };

/** The server that a command asks. */
export interface AdminServer {
  readonly kind: 'server';
  readonly place: AdminPlace;
  readonly token: string | undefined;
}

/** No server was found. The reason was printed. */
export interface NoServer {
  readonly kind: 'none';
  readonly exitCode: number;
}

/** Parses a URL, `[host:]port`, or `unix:PATH`. Returns undefined for other text. */
export function parseAdminPlace(text: string): AdminPlace | undefined {
  if (/^https?:\/\//i.test(text)) return parseAdminUrl(text);
  const place = parseListenPlace(text);
  if (place?.kind === 'unix') return place;
  if (place?.kind !== 'tcp' || place.port === 0) return undefined;
  return { kind: 'url', url: new URL(`http://${formatListenAddress(place)}`) };
}

/** Formats the place for messages. */
export function formatAdminPlace(place: AdminPlace): string {
  return place.kind === 'unix' ? `unix:${place.path}` : place.url.href.replace(/\/$/, '');
}

/** A path in the URL is put before every path of the API, for a proxy in front of the listener. */
function parseAdminUrl(text: string): AdminPlace | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const hasMore =
    url === undefined || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '';
  return hasMore ? undefined : { kind: 'url', url };
}

/** The flags of `rangeway explain`. */
export interface ExplainFlags extends AdminFlags {
  /** The value of Range. */
  readonly range?: string | undefined;
  readonly header?: readonly (readonly [name: string, value: string])[] | undefined;
  /** The method of the request; GET by default. */
  readonly request?: string | undefined;
  /** The client address to assume. */
  readonly client?: string | undefined;
  readonly json?: boolean | undefined;
}

/** Parses an http or https URL; the scheme is http where the text has none. Returns undefined for other text. */
export function parseUrl(text: string): URL | undefined {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined;
}

/** Returns the value of Range for a range as curl writes it: `0-99`, `-100`, or with its unit. */
export function parseRangeFlag(text: string): string {
  // `-r=0-99` is read as the range `=0-99`.
  const range = text.replace(/^=/, '');
  return range.includes('=') ? range : `bytes=${range}`;
}

/** Parses a field as curl writes it, `Name: value`. Returns undefined for other text. */
export function parseHeaderFlag(text: string): readonly [name: string, value: string] | undefined {
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/.exec(text) ?? [];
  // A field value holds no control characters but tabs (RFC 9110 §5.5).
  const isValid = name !== undefined && value !== undefined && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
  return isValid ? [name, value] : undefined;
}

type Fields = readonly (readonly [name: string, value: string])[];

/** Appends a field to those before it. Throws `InvalidArgumentError` where the text is not `Name: value`. */
export function collectHeader(text: string, before: Fields = []): Fields {
  const field = parseHeaderFlag(text);
  if (field === undefined) throw new InvalidArgumentError("Expected 'Name: value'.");
  return [...before, field];
}

/** Returns a path as it is, and a URL with `http://` before it where it has no scheme. Returns undefined for other text. */
export function withScheme(text: string): string | undefined {
  // The server completes a path. Two slashes at its start would begin an authority.
  if (text.startsWith('/')) return text.startsWith('//') ? undefined : text;
  if (parseUrl(text) === undefined) return undefined;
  return /^https?:\/\//i.test(text) ? text : `http://${text}`;
}

/** Checks whether clients on this machine reach a URL at one of the addresses, such as `http://127.0.0.1:8080`. */
export function isServedAt(text: string, addresses: readonly string[]): boolean {
  const url = text.startsWith('/') ? undefined : parseUrl(text);
  return url !== undefined && addresses.some((address) => URL.canParse(address) && isSamePlace(url, new URL(address)));
}

function isSamePlace(url: URL, served: URL): boolean {
  if (served.protocol !== url.protocol || served.port !== url.port) return false;
  if (served.hostname === url.hostname) return true;
  if (wildcardHost.test(served.hostname)) return isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1'));
  return url.hostname === 'localhost' && /^(?:127\.0\.0\.1|\[::1\])$/.test(served.hostname);
}

const wildcardHost = /^(?:0\.0\.0\.0|\[::\])$/;
