/**
 * The kinds of value that options have: sizes (`10GB`), durations (`60s`), counts, hosts, addresses, names of fields, secrets,
 * URLs of origins.
 */

import * as z from 'zod';
import {
  formatListenAddress,
  isHostField,
  isHostName,
  parseAddressRange,
  parseListenAddress,
  parseListenPlace,
} from './address.ts';

const bytesPerUnit: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

const msPerUnit: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86_400e3 };

/** The grammar of a size: a whole number, and a unit whose letters are written as the standards write them. */
const sizePattern = /^(\d{1,16}) ?(|B|[kKMGT]B|[KMGT]iB)$/;

const durationPattern = /^(\d{1,16}) ?(ms|s|m|h|d)$/;

/**
 * Bytes from text: a whole number, alone or with a unit. KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB of 1024.
 * Undefined when the text is anything else, or more than a safe integer holds.
 */
export function parseSize(text: string): number | undefined {
  return parseAmount(sizePattern.exec(text), bytesPerUnit);
}

/**
 * Milliseconds from text: a whole number with one of the units ms, s, m, h, d; a zero needs none.
 * Undefined when the text is anything else, or more than a safe integer holds.
 */
export function parseDuration(text: string): number | undefined {
  return text === '0' ? 0 : parseAmount(durationPattern.exec(text), msPerUnit);
}

function parseAmount(match: RegExpExecArray | null, factors: Readonly<Record<string, number>>): number | undefined {
  const [, digits, unit] = match ?? [];
  const factor = unit === undefined ? undefined : factors[unit];
  if (digits === undefined || factor === undefined) return undefined;
  const amount = Number(digits) * factor;
  return Number.isSafeInteger(amount) ? amount : undefined;
}

/**
 * A number of bytes, or text with a unit; the limits are texts, for their own sake in messages. Gives bytes. What is
 * beyond a limit is checked no further.
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

/** A number of seconds, fractions allowed. */
export function seconds(min: number, max: number) {
  return z
    .number({ error: ({ code }) => (code === 'invalid_type' ? 'expected a number of seconds' : undefined) })
    .min(min)
    .max(max);
}

/** A whole number. */
export function count(min: number, max: number) {
  return z.int().min(min).max(max);
}

/** Where to listen, parsed. */
export const listenPlace = z.string().transform((text, context) => {
  const place = parseListenPlace(text);
  if (place !== undefined) return place;
  context.addIssue(
    'expected [host:]port such as "8080", "0.0.0.0:8080" or "[::1]:8080", "unix:PATH", "systemd" or "systemd:NAME"',
  );
  return z.NEVER;
});

/** A host name or address without a port, or `*.` and the end of names; in lower case. */
export const hostPattern = z
  .string()
  .refine(
    (text) => isHostName(text.replace(/^\*\./, '')),
    'expected a host name such as "media.example.org" or "*.example.org", without scheme and port',
  )
  .toLowerCase();

/** What may stand in a Host field, or one of the words that choose it. */
export const hostChoice = z
  .string()
  .refine(isHostField, 'expected "origin", "keep" or a host name such as "media.example.org"');

/** An IP address, or all that begin like one, parsed. */
export const addressRange = z.string().transform((text, context) => {
  const range = parseAddressRange(text);
  if (range !== undefined) return range;
  context.addIssue('expected an IP address such as "192.0.2.7" or "::1", or a block such as "10.0.0.0/8"');
  return z.NEVER;
});

/** A peer by its address, by a block of addresses, or by having connected to a Unix socket. */
export const trustedPeer = z.union([z.literal('unix'), addressRange], {
  error: 'expected an IP address, a block such as "10.0.0.0/8", or "unix"',
});

/** Where a secret is. */
export type SecretSource = { readonly kind: 'env' | 'file'; readonly name: string };

const secretSourcePattern = /^(?:env:[A-Za-z_]\w*|file:.+)$/;

/** Where a secret is, parsed: never the secret itself, which a configuration file is no place for. */
export const secretSource = z
  .string()
  .meta({ pattern: secretSourcePattern.source })
  // Not by `regex`, whose message tells what was found: it may be the secret.
  .refine((text) => secretSourcePattern.test(text), {
    error: 'expected "env:NAME", a variable of the environment, or "file:PATH"',
    abort: true,
  })
  .transform((text): SecretSource => {
    const colon = text.indexOf(':');
    return { kind: text.startsWith('env:') ? 'env' : 'file', name: text.slice(colon + 1) };
  });

/** A path prefix: origin-form, no query. */
export const pathPrefix = z
  .string()
  .regex(/^\/[^?#\s]*$/, 'expected a path that begins with "/", without query and spaces')
  // Paths that origins may read another way are of no route: see `lenientPath`.
  .refine((path) => !/[\\;]|\/\/|%2f|%5c|%3b/i.test(path), 'must not hold "//", "\\", ";" or encoded ones of them');

/** A token (RFC 9110 §5.6.2). */
export const token = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/, "expected a token: letters, digits and the signs !#$%&'*+.^_`|~-");

/** Names may be this long, in characters. */
const maxFieldName = 64;
const maxOtherName = 100;

/**
 * The name of a field (RFC 9110 §5.1), in lower case. One with `*` would be taken for the beginning of names. `example` is
 * for messages.
 */
export function fieldName(example: string) {
  return z
    .string()
    .max(maxFieldName, { abort: true })
    .regex(/^[!#$%&'+.^_`|~0-9A-Za-z-]+$/, `expected the exact name of a field such as "${example}"`)
    .toLowerCase();
}

/** The name of a field, or the beginning of names and `*`, in lower case. */
export const fieldPattern = z
  .string()
  .max(maxFieldName, { abort: true })
  .regex(/^[!#$%&'+.^_`|~0-9A-Za-z-]+\*?$/, 'expected the name of a field, or the beginning of names such as "X-App-*"')
  .toLowerCase();

/** The value of a field (RFC 9110 §5.5), of what anybody can type. */
export const fieldText = z
  .string()
  .max(8192)
  .regex(/^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/, 'expected visible ASCII, with spaces inside only');

const otherName = z.string().max(maxOtherName, { abort: true });

/** The name of a cookie, exact. */
export const cookieName = otherName.regex(/^[^\s;=*]+$/, 'expected the exact name of a cookie such as "language"');

/** The name of a cookie, or the beginning of names and `*`. */
export const cookiePattern = otherName.regex(
  /^[^\s;=*]+\*?$/,
  'expected the name of a cookie, or the beginning of names such as "session_*"',
);

/**
 * The name of a query parameter, or the beginning of names and `*`. A name may have any character once it is decoded; with
 * those that separate parameters it is a part of a query, more likely, and would never be found.
 */
export const parameterPattern = otherName.regex(
  /^(?!\?)[^*=&]+\*?$/,
  'expected the name of a parameter, or the beginning of names such as "utm_*"',
);

/** A list of different names. */
export function names<T extends z.ZodType<string>>(name: T, max: number) {
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

/** Statuses whose responses are not stored as such, whatever they say. */
const unstorableStatuses = new Set(
  '206 304 401 406 407 408 411 412 413 415 416 417 421 425 426 428 429 431 505 511'.split(' '),
);

/** A status such as `404`, or a class of statuses such as `5xx`. Not one whose responses are never stored. */
export const statusOrClass = z
  .string()
  .regex(/^[2-5](?:xx|\d\d)$/, 'expected a status such as "404", or a class from "2xx" to "5xx"')
  .refine((status) => !unstorableStatuses.has(status), 'has no effect: responses with this status are never stored');

/** A status such as `404`, or a class of statuses: those of errors. */
export const errorStatusOrClass = z
  .string()
  .regex(/^[45](?:xx|\d\d)$/, 'expected the status of an error such as "502", or "4xx" or "5xx"');

/** The URL of an origin, normalised, or `unix:` and the path of a socket. The path of a URL is put before every path. */
export const originUrl = z.string().transform((text, context) => {
  const url = readOriginUrl(text);
  if (url.kind === 'ok') return url.href;
  context.addIssue(url.complaint);
  return z.NEVER;
});

type OriginUrl =
  | { readonly kind: 'ok'; readonly href: string }
  | { readonly kind: 'refused'; readonly complaint: string };

/** The longest path that a socket's address holds, in bytes, on the systems with the shortest one. */
const maxSocketPathBytes = 103;

function readSocketUrl(path: string): OriginUrl {
  const normal = path.replace(/^\/\/+/, '/');
  if (normal !== path) return { kind: 'refused', complaint: `expected one slash; did you mean "unix:${normal}"?` };
  if (!path.startsWith('/')) return { kind: 'refused', complaint: 'expected an absolute path after "unix:"' };
  // Nothing that a URL would read another way.
  if (path.endsWith('/') || /[\s?#%]/.test(path) || new URL(`unix:${path}`).pathname !== path) {
    return { kind: 'refused', complaint: 'expected the path of a socket such as "unix:/run/app.sock"' };
  }
  if (path.length > maxSocketPathBytes) {
    return { kind: 'refused', complaint: `a socket's path has at most ${maxSocketPathBytes} bytes` };
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
    // The value is not repeated: a message must not carry the password on.
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

/** The URL meant by `localhost:3000/files`, `3000`, `/run/app.sock` and the like, which lack its scheme; undefined for other text. */
function withScheme(text: string): string | undefined {
  if (/^\/.*\.sock$/.test(text)) return `unix:${text}`;
  const [, authority = '', path = ''] = /^([^/?#]+)(\/[^?#\s]*)?$/.exec(text) ?? [];
  const address = parseListenAddress(authority);
  if (address !== undefined) return `http://${formatListenAddress(address)}${path}`;
  return authority === 'localhost' ? `http://localhost${path}` : undefined;
}
