/** Forwarded: what proxies tell of the way of a request (RFC 7239). */

import { trimWhitespace } from '../http/fields.ts';

/** What one proxy tells. The values are unquoted, and may hold anything. */
export interface ForwardedElement {
  /** Who sent it the request. */
  readonly for?: string | undefined;
  /** The Host that it received. */
  readonly host?: string | undefined;
  /** The scheme by which it was asked. */
  readonly proto?: string | undefined;
}

/** Fields of a forwarded request that tell who has sent it: equal requests of two clients differ in them. */
const senderFields: ReadonlySet<string> = new Set(['forwarded', 'x-forwarded-for', 'x-real-ip']);

/** Whether a field of a forwarded request tells who has sent it, in lower case. */
export function tellsSender(name: string): boolean {
  return senderFields.has(name);
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
