/** Parses and formats addresses: places to listen on, host names, IP addresses and blocks of them. */

import { isIP, isIPv6 } from 'node:net';

/** All IP addresses that begin with the same bits. */
export interface AddressRange {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** How many bits of `address` count. */
  readonly prefixLength: number;
}

/**
 * Parses an address, or a block in the notation of RFC 4632 §3.1; bits behind the prefix are ignored. Returns undefined for other
 * text, for an address with a zone, and for IPv4-mapped IPv6 addresses: peers are known by their IPv4 addresses.
 */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [, address = '', digits] = /^([\da-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/i.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0 || /^::ffff:/i.test(address)) return undefined;
  const longest = version === 6 ? 128 : 32;
  const prefixLength = digits === undefined ? longest : Number(digits);
  if (prefixLength > longest) return undefined;
  return { address, family: version === 6 ? 'ipv6' : 'ipv4', prefixLength };
}

/** Where a listener is: at an address, at a Unix socket, or at sockets that the service manager has opened. */
export type ListenPlace =
  | ({ readonly kind: 'tcp' } & ListenAddress)
  | { readonly kind: 'unix'; readonly path: string }
  /** All sockets that were passed on, or those with this name. */
  | { readonly kind: 'systemd'; readonly name: string | undefined };

/** An address to listen on. */
export interface ListenAddress {
  /** A host name or an IP address; IPv6 without brackets. */
  readonly host: string;
  /** Zero lets the system choose. */
  readonly port: number;
}

const label = '[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?';
const hostNamePattern = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*$`);

/** Splits `host:port`, `[IPv6]:port`, and a host without a port. */
const hostAndPortPattern = /^(\[[^\]]*\]|[^:[\]]+)(?::(\d{1,5}))?$/;

/** Parses `[host:]port`. The host is 127.0.0.1 by default; an IPv6 address stands in brackets. Returns undefined for other text. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const [, host = '127.0.0.1', digits = text] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  const port = parsePort(digits);
  if (port === undefined || !isHostName(host)) return undefined;
  return { host: withoutBrackets(host), port };
}

/** Parses `host[:port]`; an IPv6 address stands in brackets. Returns undefined for other text. */
export function parseHostAndPort(
  text: string,
): { readonly host: string; readonly port: number | undefined } | undefined {
  const [, host, digits] = hostAndPortPattern.exec(text) ?? [];
  const port = digits === undefined ? undefined : parsePort(digits);
  if (host === undefined || !isHostName(host) || (digits !== undefined && port === undefined)) return undefined;
  return { host: withoutBrackets(host), port };
}

/** Formats `host:port`, with brackets around IPv6. */
export function formatListenAddress(address: ListenAddress): string {
  return `${isIPv6(address.host) ? `[${address.host}]` : address.host}:${address.port}`;
}

/** Parses `[host:]port`, `unix:PATH`, `systemd` or `systemd:NAME`. A relative path stays relative. Returns undefined for other text. */
export function parseListenPlace(text: string): ListenPlace | undefined {
  const [, manager, name] = /^(systemd)(?::([\x21-\x39\x3b-\x7e]{1,255}))?$/.exec(text) ?? [];
  if (manager !== undefined) return { kind: 'systemd', name };
  if (text.startsWith('unix:')) return text.length > 5 ? { kind: 'unix', path: text.slice(5) } : undefined;
  const address = parseListenAddress(text);
  return address === undefined ? undefined : { kind: 'tcp', ...address };
}

/** Formats a place as the configuration writes it. */
export function formatListenPlace(place: ListenPlace): string {
  switch (place.kind) {
    case 'tcp':
      return formatListenAddress(place);
    case 'unix':
      return `unix:${place.path}`;
    case 'systemd':
      return place.name === undefined ? 'systemd' : `systemd:${place.name}`;
  }
}

/** Checks whether a host may stand for an address: it is the address itself, or a name. */
export function mayResolveTo(host: string, address: string): boolean {
  return host === address || isIP(host) === 0;
}

/** Checks whether the text is a host without a port: a name, an IPv4 address, or an IPv6 address in brackets. */
export function isHostName(text: string): boolean {
  if (text.startsWith('[')) return text.endsWith(']') && isIPv6(withoutBrackets(text));
  // Digits and dots alone are an address or a mistake, never a name (RFC 3986 §3.2.2, RFC 1123 §2.1).
  if (/^[\d.]+$/.test(text)) return isIP(text) === 4;
  return hostNamePattern.test(text);
}

/** Checks whether the text may stand in a Host field (RFC 9110 §7.2): a host with or without a port. */
export function isHostField(text: string): boolean {
  const [, host, port] = hostAndPortPattern.exec(text) ?? [];
  return host !== undefined && isHostName(host) && (port === undefined || parsePort(port) !== undefined);
}

function parsePort(digits: string): number | undefined {
  if (!/^\d{1,5}$/.test(digits)) return undefined;
  const port = Number(digits);
  return port <= 65_535 ? port : undefined;
}

function withoutBrackets(host: string): string {
  return host.startsWith('[') ? host.slice(1, -1) : host;
}

/** The longest path of a Unix socket that every system accepts, in bytes. */
export const longestSocketPath = 103;

/** Checks whether only this machine can connect to a host's addresses. IPv6 without brackets. */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
}

/** Checks whether the URL of an origin has an address, a loopback name or a Unix socket in place of a name that others know. */
export function isNamelessOrigin(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'unix:' || hostname.startsWith('[') || isIP(hostname) > 0 || /(?:^|\.)localhost$/.test(hostname);
}
