/**
 * Parses Authorization (RFC 9110 §11.6.2) with the credentials of Basic (RFC 7617), and the lists of names and secrets that
 * operators write, one `name:secret` per line. Looks up bearer tokens and API keys.
 */

import { createHmac } from 'node:crypto';
import { type Fields, fieldLines } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';

/** The credentials of an Authorization field. */
export interface Credentials {
  /** In lower case (RFC 9110 §11.1). */
  readonly scheme: string;
  /** Empty where no token68 follows the scheme. */
  readonly token68: string;
}

/** A name and its password. */
export interface BasicCredentials {
  /** In Unicode's composed form (NFC). */
  readonly name: string;
  readonly password: string;
}

/** The maximum length of credentials, in characters; longer ones are not parsed, because they cannot be valid here. */
const maxCredentialsLength = 4096;

/** RFC 9110 §11.4, §11.2. The field holds one set of credentials; it is not split at commas, as some recipients do. */
const credentialsForm = /^([!#$%&'*+.^_`|~\w-]+)(?: +([A-Za-z0-9._~+/-]+=*))?$/;
const schemeForm = /^[!#$%&'*+.^_`|~\w-]+(?= |$)/;

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses the credentials of a request; undefined where it has none. Throws `ProxyError` (`malformed_request`) for more than one line
 * of Authorization: the field is not a list, and another recipient might read the other line (RFC 9110 §5.3).
 */
export function readAuthorization(fields: Fields): Credentials | undefined {
  const value = singleLine(fields, 'authorization');
  if (value === undefined) return undefined;
  const [, scheme, token68 = ''] = (value.length <= maxCredentialsLength && credentialsForm.exec(value)) || [];
  return { scheme: (scheme ?? schemeForm.exec(value)?.[0] ?? '').toLowerCase(), token68 };
}

/** Returns the value of a field that may have one line; undefined without one. Throws `ProxyError` (`malformed_request`) for more. */
export function singleLine(fields: Fields, name: string): string | undefined {
  const [value, ...more] = fieldLines(fields, name);
  if (more.length > 0) throw new ProxyError('malformed_request', { detail: `more than one ${name}` });
  return value;
}

/**
 * Parses the token of Basic (RFC 7617 §2): name and password in UTF-8, in canonical Base64; the first colon ends the name. Undefined
 * for anything else, for control characters, and for an empty name or password.
 */
export function parseBasic(token68: string): BasicCredentials | undefined {
  const bytes = Buffer.from(token68, 'base64');
  if (bytes.toString('base64') !== token68) return undefined;
  const text = decodeUtf8(bytes);
  const colon = text?.indexOf(':') ?? -1;
  if (text === undefined || colon < 1 || colon === text.length - 1 || hasControlCharacter(text)) return undefined;
  return { name: text.slice(0, colon).normalize('NFC'), password: text.slice(colon + 1) };
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns the name that a token belongs to; undefined for an unknown token. */
export type TokenTable = (token: string) => string | undefined;

/** In characters: shorter tokens could be guessed. */
const minTokenLength = 16;
const maxTokenLength = 2048;

/** Checks the form of a bearer token (RFC 6750 §2.1): another token could not be sent. */
export const bearerRule: SecretRule = ({ secret }) =>
  lengthFault(secret, 'token') ??
  (/^[A-Za-z0-9._~+/-]+=*$/.test(secret) ? undefined : 'the token has characters that no bearer token may have');

/** Checks the form of an API key, which is the whole value of a field. */
export const apiKeyRule: SecretRule = ({ secret }) =>
  lengthFault(secret, 'key') ??
  (/^[\x21-\x7e]+$/.test(secret) ? undefined : 'the key has characters other than visible ASCII');

/** Returns the first `line` whose token an earlier line (`before`) has too: a token must belong to one name. Undefined without one. */
export function findSharedToken(
  entries: readonly NamedSecret[],
): { readonly line: number; readonly before: number } | undefined {
  const lines = new Map<string, number>();
  for (const { secret, line } of entries) {
    const before = lines.get(secret);
    if (before !== undefined) return { line, before };
    lines.set(secret, line);
  }
  return undefined;
}

/**
 * Creates a table. Tokens are looked up by their HMAC under a random `key` that is secret to this table. The time of such a look-up
 * reveals nothing about the token that was sent, nor about the tokens in the table.
 */
export function createTokenTable(entries: readonly NamedSecret[], key: Uint8Array): TokenTable {
  const digestOf = (token: string): string => createHmac('sha256', key).update(token).digest('base64');
  const names = new Map(entries.map(({ name, secret }) => [digestOf(secret), name]));
  return (token) => (token.length <= maxTokenLength ? names.get(digestOf(token)) : undefined);
}

function lengthFault(secret: string, noun: string): string | undefined {
  if (secret.length < minTokenLength) return `the ${noun} has fewer than ${minTokenLength} characters`;
  return secret.length > maxTokenLength ? `the ${noun} has more than ${maxTokenLength} characters` : undefined;
}

/** One line of a list. */
export interface NamedSecret {
  /** In Unicode's composed form (NFC). */
  readonly name: string;
  readonly secret: string;
  /** The line number, from 1. */
  readonly line: number;
}

/** A list, or why the text is not one; the reason reveals nothing of a secret. */
type NamedSecretsReading =
  | { readonly kind: 'list'; readonly secrets: readonly NamedSecret[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** Checks a line of a list; returns its fault or undefined. The fault follows "has a fault in line 3: ", and reveals no secret. */
export type SecretRule = (entry: NamedSecret) => string | undefined;

const maxNameLength = 255;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

/** Checks whether a text has characters that names and passwords must not have (RFC 7617 §2). */
export function hasControlCharacter(text: string): boolean {
  return controlCharacter.test(text);
}

/**
 * Parses a list. A line ends with LF or CRLF; blank lines and lines that begin with `#` are ignored. The first colon ends the name.
 * No two lines may have the same name. White space around a name or a secret is refused, because it would be hard to notice later.
 */
export function parseNamedSecrets(text: string, rule: SecretRule): NamedSecretsReading {
  const secrets = new Map<string, NamedSecret>();
  for (const [index, content] of text.split(/\r?\n/).entries()) {
    const line = index + 1;
    if (/^\s*(?:#|$)/.test(content)) continue;
    const entry = parseLine(content, line);
    const reason = typeof entry === 'string' ? entry : faultAmong(entry, secrets, rule);
    if (typeof entry === 'string' || reason !== undefined)
      return { kind: 'refused', reason: `has a fault in line ${line}: ${reason}` };
    secrets.set(entry.name, entry);
  }
  if (secrets.size === 0) return { kind: 'refused', reason: 'has no line "name:secret"' };
  return { kind: 'list', secrets: [...secrets.values()] };
}

function parseLine(content: string, line: number): NamedSecret | string {
  const colon = content.indexOf(':');
  if (colon === -1) return 'there is no colon between a name and a secret';
  const name = content.slice(0, colon).normalize('NFC');
  const secret = content.slice(colon + 1);
  if (name === '') return 'there is no name before the colon';
  if (secret === '') return 'there is no secret after the colon';
  if (name !== name.trim() || secret !== secret.trim()) return 'there is white space around the name or the secret';
  if (hasControlCharacter(content)) return 'there is a control character in it';
  if (name.length > maxNameLength) return `the name has more than ${maxNameLength} characters`;
  return { name, secret, line };
}

function faultAmong(
  entry: NamedSecret,
  before: ReadonlyMap<string, NamedSecret>,
  rule: SecretRule,
): string | undefined {
  const same = before.get(entry.name);
  return same === undefined ? rule(entry) : `the name is that of line ${same.line}`;
}
