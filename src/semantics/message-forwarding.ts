/**
 * Message forwarding (RFC 9110 §7.6): removes the fields of one connection (§7.6.1); reads and writes Via (§7.6.3) and CDN-Loop
 * (RFC 8586), which reveal loops, and Forwarded (RFC 7239), by which proxies state where a request came from.
 */

import { type Fields, fieldLines, listMembers, trimWhitespace, withoutFields } from '../http/fields.ts';

/** Hop-by-hop fields, whether or not Connection names them. */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields, and families of fields, that are end-to-end by definition. */
const endToEndFields: ReadonlySet<string> = new Set([
  'age',
  'allow',
  'authorization',
  'cache-control',
  'cache-status',
  'cdn-loop',
  'cookie',
  'date',
  'etag',
  'expect',
  'expires',
  'forwarded',
  'host',
  'last-modified',
  'location',
  'max-forwards',
  'origin',
  'pragma',
  'proxy-authorization',
  'range',
  'referer',
  'retry-after',
  'server',
  'set-cookie',
  'strict-transport-security',
  'traceparent',
  'tracestate',
  'user-agent',
  'vary',
  'via',
  'www-authenticate',
  'x-real-ip',
]);
const endToEndFamilies = ['accept', 'access-control-', 'content-', 'if-', 'sec-', 'x-forwarded-'];

/**
 * Returns a copy without the fields of the connection: Connection, every field that it names, and the hop-by-hop fields. For
 * requests and responses.
 *
 * A peer must not name an end-to-end field in Connection; Cache-Control is the RFC's example. A peer that does could remove
 * fields that the other side relies on (Host, X-Forwarded-For, Vary, Content-Length), so such fields stay.
 */
export function withoutConnectionFields(fields: Fields): Fields {
  const lines = fieldLines(fields, 'connection');
  if (lines.length === 0) return withoutFields(fields, connectionFields);
  const named = new Set(lines.flatMap(listMembers).map((option) => option.toLowerCase()));
  return fields.filter(([name]) => !connectionFields.has(name) && (!named.has(name) || isEndToEnd(name)));
}

function isEndToEnd(name: string): boolean {
  return endToEndFields.has(name) || endToEndFamilies.some((family) => name.startsWith(family));
}

const cdnLoopField = 'cdn-loop';

/** Returns a copy with our member after all others (RFC 8586 §2). `pseudonym` is a token. */
export function withCdnLoop(fields: Fields, pseudonym: string): Fields {
  return [...fields, [cdnLoopField, pseudonym]];
}

/**
 * Checks whether a member of CDN-Loop is our pseudonym, in any letter case and with any parameters. Every comma separates
 * members, also inside quotes: proxies append their members to the client's value, and an open quote in it must not hide them.
 */
export function isCdnLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  return fieldLines(request, cdnLoopField).some((line) => line.split(',').some((member) => idOf(member) === own));
}

function idOf(member: string): string {
  const [id = ''] = member.split(';', 1);
  return trimWhitespace(id).toLowerCase();
}

/** Formats a member of Via. `version` is the protocol version of the message as received: `1.0`, `1.1`, `2`. */
export function formatVia(version: string, pseudonym: string): string {
  return `${version} ${pseudonym}`;
}

/** Returns a copy with our member of Via after all others. */
export function withVia(fields: Fields, version: string, pseudonym: string): Fields {
  return [...fields, ['via', formatVia(version, pseudonym)]];
}

/**
 * Checks whether a request has passed through this proxy before: our pseudonym, in any letter case, is the received-by of a Via
 * member or is in CDN-Loop (RFC 8586), which remains where Via is removed on the way.
 */
export function isLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  const isVia = fieldLines(request, 'via').some((line) =>
    viaMembers(line).some((member) => receivedBy(member) === own),
  );
  return isVia || isCdnLoop(request, pseudonym);
}

/** The received-by of a member, in lower case. A member is received-protocol, white space, received-by. */
function receivedBy(member: string): string | undefined {
  const [, name] = trimWhitespace(member).split(/[ \t]+/, 2);
  return name?.toLowerCase();
}

/**
 * The members, with a space in place of each comment. Comments may nest and contain commas. If one is never closed, nothing
 * counts as a comment: an open parenthesis must not hide a loop.
 */
function viaMembers(line: string): string[] {
  let depth = 0;
  let text = '';
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at);
    if (character === '(') {
      depth++;
      text += ' ';
    } else if (depth === 0) {
      text += character;
    } else if (character === ')') {
      depth--;
    } else if (character === '\\') {
      at++;
    }
  }
  return (depth === 0 ? text : line).split(',');
}

/** The element of one proxy. The values are unquoted and unchecked. */
export interface ForwardedElement {
  /** The sender of the request that the proxy received. */
  readonly for?: string | undefined;
  /** The Host that it received. */
  readonly host?: string | undefined;
  /** The scheme of the request that the proxy received. */
  readonly proto?: string | undefined;
}

/**
 * One pair, and its separator from the next one. Beyond the grammar (RFC 7239 §4), an unquoted value may contain colons and
 * brackets, and white space may surround a semicolon: both are unambiguous, and proxies write them.
 */
const pairForm =
  /[ \t]*(?:([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w:[\]-]+)|"((?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*)")[ \t]*)?([;,]|$)/y;

/**
 * Parses the lines of a Forwarded field into elements, the nearest to the client first (RFC 7239 §4). Undefined where a line is
 * malformed or an element repeats a parameter: text behind an open quote may come from any sender. Names are case-insensitive;
 * unknown parameters and empty elements are ignored.
 */
export function parseForwarded(lines: readonly string[]): readonly ForwardedElement[] | undefined {
  const elements: ForwardedElement[] = [];
  for (const line of lines) {
    const read = parseLine(line);
    if (read === undefined) return undefined;
    elements.push(...read);
  }
  return elements;
}

function parseLine(line: string): ForwardedElement[] | undefined {
  const elements: ForwardedElement[] = [];
  let pairs = new Map<string, string>();
  for (let at = 0; ; ) {
    pairForm.lastIndex = at;
    const match = pairForm.exec(line);
    if (match === null) return undefined;
    const [text, name, token, quoted, separator] = match;
    if (name !== undefined) {
      const key = name.toLowerCase();
      if (pairs.has(key)) return undefined;
      pairs.set(key, token ?? quoted?.replace(/\\(.)/g, '$1') ?? '');
    }
    if (separator !== ';') {
      if (pairs.size > 0) elements.push({ for: pairs.get('for'), host: pairs.get('host'), proto: pairs.get('proto') });
      pairs = new Map();
    }
    if (separator === '') return elements;
    at += text.length;
  }
}

/** Formats an element: an IPv6 address in `for` in brackets, a value that is not a token in quotes (RFC 7239 §4, §6). */
export function formatForwarded({ for: sender, host, proto }: ForwardedElement): string {
  const pairs: string[] = [];
  if (sender !== undefined) pairs.push(`for=${sender.includes(':') ? `"[${sender}]"` : quotedIfNeeded(sender)}`);
  if (host !== undefined) pairs.push(`host=${quotedIfNeeded(host)}`);
  if (proto !== undefined) pairs.push(`proto=${quotedIfNeeded(proto)}`);
  return pairs.join(';');
}

function quotedIfNeeded(text: string): string {
  return /^[!#$%&'*+.^_`|~\w-]+$/.test(text) ? text : `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** A node (RFC 7239 §6): an IPv6 address in brackets or a name without colons, with an optional port. */
const nodeForm = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(?:\d{1,5}|_[\w.-]+))?$/i;

/**
 * Returns the name of a node without port and brackets, in lower case: an address, `unknown`, or an identifier that hides one
 * (`_gateway`). The name is not checked to be one of these. Also for X-Forwarded-For, where IPv6 addresses may stand without
 * brackets.
 */
export function nodeName(node: string): string {
  const text = trimWhitespace(node);
  const [, bracketed, plain] = nodeForm.exec(text) ?? [];
  // White space may stand before a port.
  return trimWhitespace(bracketed ?? plain ?? text).toLowerCase();
}

/** Checks whether a node hides its address (RFC 7239 §6.2, §6.3). */
export function isHiddenNode(name: string): boolean {
  return name === 'unknown' || /^_[\w.-]+$/.test(name);
}
