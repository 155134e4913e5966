/** The types of option values: sizes, counts, hosts, addresses, field names, secrets, URLs of origins. */

import * as z from 'zod';
import {
  formatListenAddress,
  isHostField,
  isHostName,
  longestSocketPath,
  parseAddressRange,
  parseListenAddress,
  parseListenPlace,
} from './address.ts';
import { parseSize, sizePattern } from './amounts.ts';
import { parseSecretSource, secretSourcePattern } from './secret-source.ts';

/**
 * Returns the schema of a size: a number of bytes, or text with a unit. The value is in bytes. The limits are text, because
 * messages repeat them; they are inclusive. A value beyond a limit is checked no further.
 */
export function size(limits: { readonly min: string; readonly max: string }) {
  const min = parseSize(limits.min) ?? 0;
  const max = parseSize(limits.max) ?? Number.MAX_SAFE_INTEGER;
  const text = z
    .string()
    .regex(sizePattern, { error: 'expected a size such as "512MiB" or "10GB"', abort: true })
    .transform((value) => parseSize(value) ?? Number.POSITIVE_INFINITY)
    .refine((bytes) => bytes >= min, { error: `must be at least ${limits.min}`, abort: true })
    .refine((bytes) => bytes <= max, { error: `must be at most ${limits.max}`, abort: true });
  return z.union([z.int().min(min, { abort: true }).max(max, { abort: true }), text]);
}

/** Returns the schema of a number of seconds, fractions allowed. The limits are inclusive. */
export function secondsOption(min: number, max: number) {
  return z
    .number({ error: ({ code }) => (code === 'invalid_type' ? 'expected a number of seconds' : undefined) })
    .min(min)
    .max(max);
}

/** Returns the schema of a whole number. The limits are inclusive. */
export function countOption(min: number, max: number) {
  return z.int().min(min).max(max);
}

/** A place to listen on, parsed. */
export const listenPlace = z.string().transform((text, context) => {
  const place = parseListenPlace(text);
  if (place !== undefined) return place;
  context.addIssue(
    'expected [host:]port such as "8080", "0.0.0.0:8080" or "[::1]:8080", "unix:PATH", "systemd" or "systemd:NAME"',
  );
  return z.NEVER;
});

/** A host name or address without a port, or `*.` and a domain; in lower case. */
export const hostPattern = z
  .string()
  .refine(
    (text) => isHostName(text.replace(/^\*\./, '')),
    'expected a host name such as "media.example.org" or "*.example.org", without scheme and port',
  )
  .toLowerCase();

/** The value of a Host field, or one of the words `origin` and `keep`. */
export const hostChoice = z
  .string()
  .refine(isHostField, 'expected "auto", "origin", "keep" or a host name such as "media.example.org"');

/** An IP address or a block of addresses, parsed. */
export const addressRange = z.string().transform((text, context) => {
  const range = parseAddressRange(text);
  if (range !== undefined) return range;
  context.addIssue('expected an IP address such as "192.0.2.7" or "::1", or a block such as "10.0.0.0/8"');
  return z.NEVER;
});

/** A peer: an IP address, a block of addresses, or `unix` for all peers on Unix sockets. */
export const trustedPeer = z.union([z.literal('unix'), addressRange], {
  error: 'expected an IP address, a block such as "10.0.0.0/8", or "unix"',
});

/** Where a secret is, parsed. Never the secret itself: it does not belong in a configuration file. */
export const secretSource = z
  .string()
  .meta({ pattern: secretSourcePattern.source })
  // Not by `regex`: its message would repeat the value, which may be the secret.
  .refine((text) => secretSourcePattern.test(text), {
    error: 'expected "env:NAME", a variable of the environment, or "file:PATH"',
    abort: true,
  })
  .transform((text) => parseSecretSource(text) ?? z.NEVER);

/** A path prefix: origin-form, no query. */
export const pathPrefix = z
  .string()
  .regex(/^\/[^?#\s]*$/, 'expected a path that begins with "/", without query and spaces')
  // Origins read such paths in different ways: see `pathReadings`.
  .refine((path) => !/[\\;]|\/\/|%2f|%5c|%3b/i.test(path), 'must not hold "//", "\\", ";" or their encoded forms');

/** A token (RFC 9110 §5.6.2). */
export const token = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/, "expected a token: letters, digits and the signs !#$%&'*+.^_`|~-");

/** The longest names, in characters. */
const maxFieldName = 64;
const maxOtherName = 100;

/**
 * Returns the schema of a field name (RFC 9110 §5.1), in lower case. `*` is refused: it would look like a prefix of names.
 * `example` is for messages.
 */
export function fieldName(example: string) {
  return z
    .string()
    .max(maxFieldName, { abort: true })
    .regex(/^[!#$%&'+.^_`|~0-9A-Za-z-]+$/, `expected the exact name of a field such as "${example}"`)
    .toLowerCase();
}

/** A field name, or a prefix of names and `*`; in lower case. */
export const fieldPattern = z
  .string()
  .max(maxFieldName, { abort: true })
  .regex(/^[!#$%&'+.^_`|~0-9A-Za-z-]+\*?$/, 'expected the name of a field, or the beginning of names such as "X-App-*"')
  .toLowerCase();

/** A field value (RFC 9110 §5.5) of visible ASCII, spaces and tabs. */
export const fieldText = z
  .string()
  .max(8192)
  .regex(/^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/, 'expected visible ASCII, with spaces inside only');

const otherName = z.string().max(maxOtherName, { abort: true });

/** The exact name of a cookie. */
export const cookieName = otherName.regex(/^[^\s;=*]+$/, 'expected the exact name of a cookie such as "language"');

/** The name of a cookie, or a prefix of names and `*`. */
export const cookiePattern = otherName.regex(
  /^[^\s;=*]+\*?$/,
  'expected the name of a cookie, or the beginning of names such as "session_*"',
);

/**
 * The name of a query parameter, or a prefix of names and `*`. A decoded name may have any character. A text with separators of
 * a query is refused all the same: it is more likely a piece of a query, and would never match.
 */
export const parameterPattern = otherName.regex(
  /^(?!\?)[^*=&]+\*?$/,
  'expected the name of a parameter, or the beginning of names such as "utm_*"',
);

/** Returns the schema of a list of at most `max` distinct names. */
export function distinctNames<T extends z.ZodType<string>>(name: T, max: number) {
  return z
    .array(name)
    .max(max)
    .superRefine((value, context) => {
      for (const [index, given] of value.entries()) {
        if (value.indexOf(given) === index) continue;
        context.addIssue({ code: 'custom', path: [index], message: `"${given}" is named twice` });
      }
    });
}

/** Statuses whose responses are never stored as such. */
const unstorableStatuses = new Set(
  '206 304 401 406 407 408 411 412 413 415 416 417 421 425 426 428 429 431 505 511'.split(' '),
);

/** A status such as `404`, or a class of statuses such as `5xx`. Not one whose responses are never stored. */
export const statusOrClass = z
  .string()
  .regex(/^[2-5](?:xx|\d\d)$/, 'expected a status such as "404", or a class from "2xx" to "5xx"')
  .refine((status) => !unstorableStatuses.has(status), 'has no effect: responses with this status are never stored');

/** The status of an error such as `404`, or a class of errors such as `5xx`. */
export const errorStatusOrClass = z
  .string()
  .regex(/^[45](?:xx|\d\d)$/, 'expected the status of an error such as "502", or "4xx" or "5xx"');

/** The URL of an origin, normalised, or `unix:` and the path of a socket. */
export const originUrl = z.string().transform((text, context) => {
  const url = readOriginUrl(text);
  if (url.kind === 'ok') return url.href;
  context.addIssue(url.complaint);
  return z.NEVER;
});

type OriginUrl =
  | { readonly kind: 'ok'; readonly href: string }
  | { readonly kind: 'refused'; readonly complaint: string };

function readSocketUrl(path: string): OriginUrl {
  const normal = path.replace(/^\/\/+/, '/');
  if (normal !== path) return { kind: 'refused', complaint: `expected one slash; did you mean "unix:${normal}"?` };
  if (!path.startsWith('/')) return { kind: 'refused', complaint: 'expected an absolute path after "unix:"' };
  // Only paths that URL parsing leaves unchanged.
  if (path.endsWith('/') || /[\s?#%]/.test(path) || new URL(`unix:${path}`).pathname !== path) {
    return { kind: 'refused', complaint: 'expected the path of a socket such as "unix:/run/app.sock"' };
  }
  if (path.length > longestSocketPath) {
    return { kind: 'refused', complaint: `a socket's path has at most ${longestSocketPath} bytes` };
  }
  return { kind: 'ok', href: `unix:${path}` };
}

function readOriginUrl(text: string): OriginUrl {
  if (text.startsWith('unix:')) return readSocketUrl(text.slice('unix:'.length));
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    return { kind: 'refused', complaint: notAnOrigin(text) };
  }
  const [, socketPath] = /^https?:\/\/unix:(\/[^:]+)/i.exec(text) ?? [];
  if (socketPath !== undefined) {
    return { kind: 'refused', complaint: `expected the URL of an origin; did you mean "unix:${socketPath}"?` };
  }
  if (url.username !== '' || url.password !== '') {
    // The message does not repeat the value: it holds a password.
    return { kind: 'refused', complaint: 'must not hold a user name or password' };
  }
  if (url.search !== '' || url.hash !== '') {
    return { kind: 'refused', complaint: 'must not hold a query or a fragment' };
  }
  return { kind: 'ok', href: url.href };
}

function notAnOrigin(text: string): string {
  const meant = withScheme(text);
  return meant === undefined
    ? 'expected the URL of an origin such as "http://127.0.0.1:3000" or "unix:/run/app.sock"'
    : `expected the URL of an origin; did you mean "${meant}"?`;
}

/** Returns the probable URL for a text without a scheme, such as `localhost:3000/files`, `3000` or `/run/app.sock`. */
function withScheme(text: string): string | undefined {
  if (/^\/.*\.sock$/.test(text)) return `unix:${text}`;
  const [, authority = '', path = ''] = /^([^/?#]+)(\/[^?#\s]*)?$/.exec(text) ?? [];
  const address = parseListenAddress(authority);
  if (address !== undefined) return `http://${formatListenAddress(address)}${path}`;
  return authority === 'localhost' ? `http://localhost${path}` : undefined;
}

/** A method (RFC 9110 §9.1): a token. CONNECT and TRACE are never served. */
export const methodName = z
  .string()
  .max(100)
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a method, such as "PURGEALL"')
  .refine((name) => !/^(?:CONNECT|TRACE|PRI)$/i.test(name), 'is never passed on');

/** A protocol name of Upgrade (RFC 9110 §7.8) that opens a tunnel. */
export const upgradeName = z
  .string()
  .max(100)
  .regex(
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$/,
    'expected a protocol, such as "tcp" or "SPDY/3.1"',
  )
  .refine(
    (name) => !/^(?:h2c|h2|h3|https?|tls)(?:\/|$)/i.test(name),
    'is HTTP or TLS itself, which no rule could look into',
  );
