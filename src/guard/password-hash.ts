/** Passwords as they are kept: hashed with scrypt (RFC 7914), written in the PHC string format. */

import { scrypt, timingSafeEqual } from 'node:crypto';

/** What a hash costs: N is 2^`ln`. Memory is 128·N·r bytes, work is in proportion to N·r·p. */
export interface HashCost {
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

/** A hash that a password is compared with. */
export interface PasswordHash extends HashCost {
  readonly salt: Uint8Array;
  readonly digest: Uint8Array;
}

/** A hash, or why a text is none that is used here; the reason has nothing of the text in it. */
export type PasswordHashReading =
  | { readonly kind: 'hash'; readonly hash: PasswordHash }
  | { readonly kind: 'refused'; readonly reason: string };

/** 32 MiB, and about a fifth of a second on one core. */
export const defaultCost: HashCost = { ln: 15, r: 8, p: 3 };

/** How many bytes of salt a new hash has. */
export const saltBytes = 16;

const digestBytes = 32;

/** A file of hashes must not be able to take all memory, nor a thread for long; nor be so cheap that it protects nothing. */
const bounds = { ln: [10, 20], r: [1, 32], p: [1, 16] } as const;
const maxMemoryBytes = 128 * 1024 * 1024;
const maxWork = 2 ** 22;

const form = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})$/;

/** How the hashes of other programs begin. */
const otherForms = /^(?:\$2[abxy]?\$|\$apr1\$|\$argon2|\$[156y]\$|\{)/;

/** Reads `$scrypt$ln=15,r=8,p=3$salt$digest`, the last two in Base64 without padding. */
export function parsePasswordHash(text: string): PasswordHashReading {
  const [, ln, r, p, salt, digest] = form.exec(text) ?? [];
  if (digest === undefined || salt === undefined) return refused(otherForms.test(text) ? otherHash : noHash);
  const hash: PasswordHash = {
    ln: Number(ln),
    r: Number(r),
    p: Number(p),
    salt: Buffer.from(salt, 'base64'),
    digest: Buffer.from(digest, 'base64'),
  };
  for (const name of ['ln', 'r', 'p'] as const) {
    const [least, most] = bounds[name];
    if (hash[name] < least || hash[name] > most) return refused(`${name} is not between ${least} and ${most}`);
  }
  const work = 2 ** hash.ln * hash.r;
  if (128 * work > maxMemoryBytes) return refused('checking it would take more than 128 MiB of memory');
  if (work * hash.p > maxWork) return refused('checking it would take too long');
  return { kind: 'hash', hash };
}

/** The hash of a password with this salt, in the form that `parsePasswordHash` reads. */
export async function formatPasswordHash(password: string, salt: Uint8Array, cost = defaultCost): Promise<string> {
  const digest = await derive(password, salt, digestBytes, cost);
  return `$scrypt$ln=${cost.ln},r=${cost.r},p=${cost.p}$${base64(salt)}$${base64(digest)}`;
}

/** Whether this is the password. Takes a thread of the pool, and the same time for each password. */
export async function isPassword(password: string, hash: PasswordHash): Promise<boolean> {
  const digest = await derive(password, hash.salt, hash.digest.length, hash);
  return timingSafeEqual(digest, hash.digest);
}

/** The composed form (NFC) is what RFC 7617 §2.1 has clients send; those that do not are understood too. */
function derive(password: string, salt: Uint8Array, sizeBytes: number, { ln, r, p }: HashCost): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const options = { N: 2 ** ln, r, p, maxmem: 2 * maxMemoryBytes };
  scrypt(password.normalize('NFC'), salt, sizeBytes, options, (error, digest) => {
    if (error === null) resolve(digest);
    else reject(error);
  });
  return promise;
}

const noHash = 'what follows the name is no hash; "rangeway hash-password" makes one';
const otherHash = `${noHash} of the kind that is used here, scrypt`;

function refused(reason: string): PasswordHashReading {
  return { kind: 'refused', reason };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64').replace(/=+$/, '');
}
