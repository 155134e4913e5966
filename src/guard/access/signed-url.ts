/** URLs that are signed with a secret for one host, one target and a time (HMAC-SHA-256, RFC 2104). */

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SecretRule } from './authorization.ts';

/** What a signature is for. */
export interface SignedUrl {
  /** Normalised, as `normaliseAuthority` does. */
  readonly authority: string;
  /** In origin-form, without the parameters of the signature; byte for byte. */
  readonly target: string;
  readonly keyId: string;
  /** Epoch seconds: from then on it is no pass. */
  readonly expires: number;
}

/** What a target has of a signature; `target` is what is left without it. */
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

/** Why a signature is no pass; for logs. */
export type SignatureRefusal = 'malformed' | 'expired' | 'wrong';

/** Tells whether a signature is a pass, and if not, why. */
export type SignatureCheck = (
  authority: string,
  reading: Extract<SignatureReading, { kind: 'given' }>,
) => 'right' | SignatureRefusal;

/** Begins each text that is signed, so that no signature that was made for something else fits. */
const label = 'rangeway-signed-url-v1';

const names: ReadonlySet<string> = new Set(['rw-expires', 'rw-key', 'rw-signature']);

/** No zero before other digits: each time has one form. Twelve digits are the year 33658. */
const expiresForm = /^[1-9]\d{0,11}$/;
const keyIdForm = /^[A-Za-z0-9._~-]{1,64}$/;
/** 32 bytes in base64url (RFC 4648 §5). */
const signatureForm = /^[A-Za-z0-9_-]{43}$/;

const minSecretLength = 16;

/** Of a key that signs: what its id is made of needs no encoding in a query. */
export const signingKeyRule: SecretRule = ({ name, secret }) => {
  if (!keyIdForm.test(name)) return 'the id is not of 1 to 64 letters, digits and the signs . _ ~ -';
  return secret.length < minSecretLength ? `the secret has fewer than ${minSecretLength} characters` : undefined;
};

/** Whether a number of epoch seconds can be written as an expiry. */
export function isExpiry(seconds: number): boolean {
  return expiresForm.test(String(seconds));
}

/** The target with its signature, as a client is to send it. */
export function signTarget(signed: SignedUrl, secret: string): string {
  const { target, keyId, expires } = signed;
  const separator = target.includes('?') ? '&' : '?';
  return `${target}${separator}rw-expires=${expires}&rw-key=${keyId}&rw-signature=${signatureOf(signed, secret)}`;
}

/**
 * Finds the signature in a target as received. Its parameters may stand anywhere in the query, each of them once; they are
 * taken out with the separator after them, so that what is left is what was signed. A target with more of them, or with some
 * of them only, has none that is valid.
 */
export function readSignature(received: string): SignatureReading {
  const mark = received.indexOf('?');
  if (mark === -1 || !received.includes('rw-', mark)) return { kind: 'none' };
  const values = new Map<string, string>();
  const kept: string[] = [];
  let found = 0;
  for (const parameter of received.slice(mark + 1).split('&')) {
    const [name = ''] = parameter.split('=', 1);
    if (names.has(name)) {
      found += 1;
      values.set(name, parameter.slice(name.length + 1));
    } else {
      kept.push(parameter);
    }
  }
  if (found === 0) return { kind: 'none' };
  const target = received.slice(0, mark) + (kept.length === 0 ? '' : `?${kept.join('&')}`);
  const [expires = '', keyId = '', signature = ''] = [...names].map((name) => values.get(name));
  const isWhole = expiresForm.test(expires) && keyIdForm.test(keyId) && signatureForm.test(signature);
  if (found !== names.size || !isWhole) return { kind: 'malformed', target };
  return { kind: 'given', target, keyId, expires: Number(expires), signature };
}

/**
 * Creates a check. `secrets` are by id; `decoy` is random, and takes the place of a secret for ids that there are none for,
 * so that these take as long. `now` tells epoch milliseconds.
 */
export function createSignatureCheck(
  secrets: ReadonlyMap<string, string>,
  { now, decoy }: { readonly now: () => number; readonly decoy: string },
): SignatureCheck {
  return (authority, { target, keyId, expires, signature }) => {
    const secret = secrets.get(keyId);
    const right = signatureOf({ authority, target, keyId, expires }, secret ?? decoy);
    // As text: the last letter has bits that mean nothing, which would let another text stand for the same bytes.
    const isRight = timingSafeEqual(Buffer.from(right), Buffer.from(signature)) && secret !== undefined;
    if (!isRight) return 'wrong';
    return now() < expires * 1000 ? 'right' : 'expired';
  };
}

/** None of the parts has a line feed in it, so that no two of what can be signed have the same text. */
function signatureOf({ authority, target, keyId, expires }: SignedUrl, secret: string): string {
  const text = [label, authority, keyId, expires, target].join('\n');
  return createHmac('sha256', secret).update(text).digest('base64url');
}
