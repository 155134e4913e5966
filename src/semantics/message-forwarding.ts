/**
 * Message forwarding (RFC 9110 §7.6): the fields of one connection, which are not passed on (§7.6.1); Via (§7.6.3) and CDN-Loop (RFC
 * 8586), by which loops are found; and Forwarded (RFC 7239), by which proxies say from where a request came.
 */

import { type Fields, fieldLines, listMembers, trimWhitespace, withoutFields } from '../http/fields.ts';

/** Fields of one connection, whether or not Connection names them. Trailer too: trailers are not passed on here. */
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

/** Fields, and families of fields, that are for all recipients by their definition. */
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
 * A copy without the fields of the connection: Connection, every field it names, and those that are of the connection
 * anyway. For requests and responses alike.
 *
 * A peer must not name a field there that is for all recipients; Cache-Control is the RFC's example. One that does
 * could take away what the other side relies on (Host, X-Forwarded-For, Vary, Content-Length), so such fields stay.
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

/** A copy with our member after all others (RFC 8586 §2): a pseudonym, which is a token. */
export function withCdnLoop(fields: Fields, pseudonym: string): Fields {
  return [...fields, [cdnLoopField, pseudonym]];
}

/**
 * Whether a member of CDN-Loop is our pseudonym, in any case and with any parameters. Every comma separates here, those in
 * quotes too: proxies add members at the end of whatever a client has begun with, and an open quote must not hide them.
 */
export function isCdnLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  return fieldLines(request, cdnLoopField).some((line) => line.split(',').some((member) => idOf(member) === own));
}

function idOf(member: string): string {
  const [id = ''] = member.split(';', 1);
  return trimWhitespace(id).toLowerCase();
}

/** A member of Via. `version` is that of the message as received: `1.0`, `1.1`, `2`. */
export function formatVia(version: string, pseudonym: string): string {
  return `${version} ${pseudonym}`;
}

/** A copy with our member after all others. */
export function withVia(fields: Fields, version: string, pseudonym: string): Fields {
  return [...fields, ['via', formatVia(version, pseudonym)]];
}

/**
 * Whether a request has passed here before: a member of its Via was received by our pseudonym, in any case, or CDN-Loop names
 * it (RFC 8586), which survives where Via is taken out on the way.
 */
export function isLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  const isVia = fieldLines(request, 'via').some((line) =>
    viaMembers(line).some((member) => receivedBy(member) === own),
  );
  return isVia || isCdnLoop(request, pseudonym);
}

/** Received-protocol, white space, received-by, in lower case. */
function receivedBy(member: string): string | undefined {
  const [, name] = trimWhitespace(member).split(/[ \t]+/, 2);
  return name?.toLowerCase();
}

/**
 * The members with a space in place of each comment; comments may nest and hold commas. Where one is never closed
 * nothing counts as a comment: an open parenthesis must not hide a loop.
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

/** What one proxy tells. The values are unquoted, and may hold anything. */
export interface ForwardedElement {
  /** Who sent it the request. */
  readonly for?: string | undefined;
  /** The Host that it received. */
  readonly host?: string | undefined;
  /** The scheme by which it was asked. */
  readonly proto?: string | undefined;
}

/**
 * One pair, and what separates it from the next one. Without quotes a value may have colons and brackets here, and a semicolon
 * white space around it: the grammar has neither (RFC 7239 §4), but both have one reading only, and proxies write them.
 */
const pairForm =
  /[ \t]*(?:([!#$%&'*+.^_`|~\w-]+)=(?:([!#$%&'*+.^_`|~\w:[\]-]+)|"((?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*)")[ \t]*)?([;,]|$)/y;

/**
 * The elements of the lines of a Forwarded field, the nearest to the client first (RFC 7239 §4). Undefined where a line is
 * malformed, or an element has a parameter twice: what is behind an open quote could be anybody's. Names may be in any case;
 * parameters that are not known are passed over; empty elements count as none.
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

/** An element as text; an IPv6 address in `for` is put into brackets, and what is no token into quotes (RFC 7239 §4, §6). */
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

/** A node of the way (RFC 7239 §6), in brackets or bare where it is an IPv6 address, and perhaps with a port. */
const nodeForm = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(?:\d{1,5}|_[\w.-]+))?$/i;

/**
 * The name of a node without its port and brackets: an address perhaps, `unknown`, or an identifier that hides one
 * (`_gateway`). X-Forwarded-For has the same ones, IPv6 addresses without brackets among them. Not checked for being any of
 * these.
 */
export function nodeName(node: string): string {
  const text = trimWhitespace(node);
  const [, bracketed, plain] = nodeForm.exec(text) ?? [];
  // White space may stand before a port.
  return trimWhitespace(bracketed ?? plain ?? text).toLowerCase();
}

/** Whether a node tells that it is not to be known (RFC 7239 §6.2, §6.3). */
export function isHiddenNode(name: string): boolean {
  return name === 'unknown' || /^_[\w.-]+$/.test(name);
}
