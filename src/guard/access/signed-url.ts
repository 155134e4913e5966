/** Signs URLs, and checks signed ones: each is for one host, one target and a limited time (HMAC-SHA-256, RFC 2104). */

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SecretRule } from './authorization.ts';

/** The facts that a signature covers. */
export interface SignedUrl {
  /** Normalised by `normaliseAuthority`. */
  readonly authority: string;
  /** In origin-form, byte for byte, without the parameters of the signature. */
  readonly target: string;
  readonly keyId: string;
  /** Epoch seconds. The signature is not valid from then on. */
  readonly expires: number;
}

/** The signature of a target; `target` is the rest of it. */
export type SignatureReading =
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed'; readonly target: string }
  | {
      readonly kind: 'given';
      readonly target: string;
      readonly keyId: string;
      readonly expires: number;
      readonly signature: string;
    };

/** Why a signature is not valid; for logs. */
export type SignatureRefusal = 'malformed' | 'expired' | 'wrong';

/** Checks a signature; returns why it is not valid, or `right`. */
export type SignatureCheck = (
  authority: string,
  reading: Extract<SignatureReading, { kind: 'given' }>,
) => 'right' | SignatureRefusal;

/** The beginning of each signed text, so that a signature made for another purpose does not fit. */
const label = 'rangeway-signed-url-v1';

const names: ReadonlySet<string> = new Set(['rw-expires', 'rw-key', 'rw-signature']);

/** No leading zero, so that each time has one form. Twelve digits reach the year 33658. */
const expiresForm = /^[1-9]\d{0,11}$/;
const keyIdForm = /^[A-Za-z0-9._~-]{1,64}$/;
/** 32 bytes in base64url (RFC 4648 §5). */
const signatureForm = /^[A-Za-z0-9_-]{43}$/;

const minSecretLength = 16;

/** Checks a signing key. Its id must need no encoding in a query. */
export const signingKeyRule: SecretRule = ({ name, secret }) => {
  if (!keyIdForm.test(name)) return 'the id is not of 1 to 64 letters, digits and the signs . _ ~ -';
  return secret.length < minSecretLength ? `the secret has fewer than ${minSecretLength} characters` : undefined;
};

/** Checks whether a number of epoch seconds can be written as an expiry. */
export function isExpiry(seconds: number): boolean {
  return expiresForm.test(String(seconds));
}

/** Returns the target with its signature, as a client must send it. */
export function signTarget(signed: SignedUrl, secret: string): string {
  const { target, keyId, expires } = signed;
  const separator = target.includes('?') ? '&' : '?';
  return `${target}${separator}rw-expires=${expires}&rw-key=${keyId}&rw-signature=${signatureOf(signed, secret)}`;
}

/**
 * Parses the signature of a target as received. Its parameters may stand anywhere in the query, each once. They are removed with
 * their separators, so that the rest is the target that was signed. A missing or repeated parameter makes it `malformed`.
 */
export function readSignature(received: string): SignatureReading {
  const mark = received.indexOf('?');
  if (mark === -1 || !received.includes('rw-', mark)) return { kind: 'none' };
  const values = new Map<string, string>();
  const others: string[] = [];
  let found = 0;
  for (const parameter of received.slice(mark + 1).split('&')) {
    const [name = ''] = parameter.split('=', 1);
    if (names.has(name)) {
      found += 1;
      values.set(name, parameter.slice(name.length + 1));
    } else {
      others.push(parameter);
    }
  }
  if (found === 0) return { kind: 'none' };
  const target = received.slice(0, mark) + (others.length === 0 ? '' : `?${others.join('&')}`);
  const [expires = '', keyId = '', signature = ''] = [...names].map((name) => values.get(name));
  const isWhole = expiresForm.test(expires) && keyIdForm.test(keyId) && signatureForm.test(signature);
  if (found !== names.size || !isWhole) return { kind: 'malformed', target };
  return { kind: 'given', target, keyId, expires: Number(expires), signature };
}

/**
 * Creates a check. `secrets` are by key id. `decoy` is a random secret for unknown ids, so that they take as long as known ones.
 * `now` is in epoch milliseconds.
 */
export function createSignatureCheck(
  secrets: ReadonlyMap<string, string>,
  { now, decoy }: { readonly now: () => number; readonly decoy: string },
): SignatureCheck {
  return (authority, { target, keyId, expires, signature }) => {
    const secret = secrets.get(keyId);
    const right = signatureOf({ authority, target, keyId, expires }, secret ?? decoy);
    // Compared as text: the last character has unused bits, so another text could decode to the same bytes.
    const isRight = timingSafeEqual(Buffer.from(right), Buffer.from(signature)) && secret !== undefined;
    if (!isRight) return 'wrong';
    return now() < expires * 1000 ? 'right' : 'expired';
  };
}

/** No part contains a line feed, so different facts never give the same text. */
function signatureOf({ authority, target, keyId, expires }: SignedUrl, secret: string): string {
  const text = [label, authority, keyId, expires, target].join('\n');
  return createHmac('sha256', secret).update(text).digest('base64url');
}
