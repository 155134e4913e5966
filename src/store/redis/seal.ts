/**
 * Authenticates what a fleet keeps in the engine, by a secret that the engine does not know: leases, messages, records and blocks. Who
 * can write to the engine can withhold and repeat what was written before, and forge nothing.
 */

import { createCipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** What is authenticated: a text for one purpose proves nothing for another. */
type SealedKind = 'lease' | 'message' | 'record';

/** Authenticates by the secrets of an operator. The first one signs, and all verify. */
export interface Seal {
  /** Names the first secret without revealing it. Letters, digits, `-` and `_`. */
  readonly id: string;
  /** Returns the tag of texts: letters, digits, `-` and `_`. */
  sign(kind: SealedKind, ...texts: readonly string[]): string;
  /** Checks the tag of texts. */
  verifies(tag: string, kind: SealedKind, ...texts: readonly string[]): boolean;
  /** Returns `blockTagBytes` bytes that authenticate a block in its place. */
  signBlock(place: string, bytes: Uint8Array): Buffer;
  /** Checks what `signBlock` has returned. */
  verifiesBlock(tag: Uint8Array, place: string, bytes: Uint8Array): boolean;
  /** Returns the key of connections between peers, for the secret of that name; undefined where it is none of these. */
  peerKey(id: string): Buffer | undefined;
}

/** Length of the tag of a block: the nonce, and the code. In bytes. */
export const blockTagBytes = 12 + 16;
const NONCE_BYTES = 12;

/** The keys that are derived from one secret. */
interface Keys {
  readonly id: string;
  readonly texts: Buffer;
  readonly blocks: Buffer;
  readonly peers: Buffer;
}

/** Creates a seal. There is at least one secret. */
export function createSeal(secrets: readonly string[]): Seal {
  const known = secrets.map(deriveKeys);
  const [first] = known as [Keys, ...Keys[]];
  return {
    id: first.id,
    sign: (kind, ...texts) => tagOf(first, kind, texts),
    verifies: (tag, kind, ...texts) => known.some((keys) => isEqual(Buffer.from(tag), tagOf(keys, kind, texts))),
    signBlock: (place, bytes) => {
      const nonce = randomBytes(NONCE_BYTES);
      return Buffer.concat([nonce, codeOf(first, nonce, place, bytes)]);
    },
    verifiesBlock: (tag, place, bytes) => {
      const nonce = tag.subarray(0, NONCE_BYTES);
      return known.some((keys) => isEqual(tag.subarray(NONCE_BYTES), codeOf(keys, nonce, place, bytes)));
    },
    peerKey: (id) => known.find((keys) => keys.id === id)?.peers,
  };
}

function deriveKeys(secret: string): Keys {
  const derive = (purpose: string) => createHmac('sha256', secret).update(`rangeway ${purpose}`).digest();
  return {
    id: derive('name').toString('base64url').slice(0, 8),
    texts: derive('texts'),
    blocks: derive('blocks'),
    peers: derive('peers'),
  };
}

function tagOf({ texts: key }: Keys, kind: SealedKind, texts: readonly string[]): string {
  return createHmac('sha256', key)
    .update(JSON.stringify([kind, ...texts]))
    .digest('base64url');
}

/** The code of a block by GMAC (NIST SP 800-38D): a quarter of the processor time of HMAC. */
function codeOf({ blocks }: Keys, nonce: Uint8Array, place: string, bytes: Uint8Array): Buffer {
  const cipher = createCipheriv('aes-256-gcm', blocks, nonce);
  cipher.setAAD(Buffer.from(`${place}\n`));
  cipher.setAAD(bytes);
  cipher.final();
  return cipher.getAuthTag();
}

function isEqual(tag: Uint8Array, right: string | Buffer): boolean {
  const expected = Buffer.from(right as string);
  return tag.length === expected.length && timingSafeEqual(tag, expected);
}
