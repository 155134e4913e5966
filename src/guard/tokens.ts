/** Secrets that a client shows as they are: bearer tokens and API keys. */

import { createHmac } from 'node:crypto';
import type { NamedSecret, SecretRule } from './named-secrets.ts';

/** Finds the name that a token belongs to. */
export type TokenTable = (token: string) => string | undefined;

/** Shorter ones could be guessed. */
const minTokenLength = 16;
const maxTokenLength = 2048;

/** Of a bearer token (RFC 6750 §2.1): it could not be sent otherwise. */
export const bearerRule: SecretRule = ({ secret }) =>
  lengthFault(secret, 'token') ??
  (/^[A-Za-z0-9._~+/-]+=*$/.test(secret) ? undefined : 'the token has characters that no bearer token may have');

/** Of an API key: what is sent in a field whole. */
export const apiKeyRule: SecretRule = ({ secret }) =>
  lengthFault(secret, 'key') ??
  (/^[\x21-\x7e]+$/.test(secret) ? undefined : 'the key has characters other than visible ASCII');

/** The line of a token that an earlier line has already, and that line; one token cannot belong to two names. */
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
 * Creates a table. Tokens are looked up by their HMAC under a key of this table, which nobody else knows: how long it takes
 * to compare such values tells nothing about the token that was asked for, nor about those that there are. `key` is random.
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
