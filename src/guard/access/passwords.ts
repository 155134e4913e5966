/**
 * Checks names and passwords (RFC 7617). Passwords are stored as scrypt hashes (RFC 7914) in the PHC string format. A check takes a
 * thread and much memory: only a few run at a time, some may wait, and the most recent right passwords are remembered.
 */

import { createHmac, scrypt, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { ProxyError } from '../../http/proxy-error.ts';
import { type Client, clientName } from '../client.ts';
import { ConcurrencyCounts } from '../limits/rate-limit.ts';
import type { BasicCredentials } from './authorization.ts';

/** A client that waits for a check, and whether it still does. */
type WaitingClient = Pick<PasswordCheck, 'client' | 'isWanted'>;

/**
 * Returns the name that credentials belong to, or undefined for wrong ones: at once where they are remembered as right, otherwise as
 * a promise, which rejects as `PasswordChecks` do.
 */
export type BasicCheck = (
  credentials: BasicCredentials,
  asker: WaitingClient,
) => string | undefined | Promise<string | undefined>;

/** The parts of a check. */
interface BasicCheckParts {
  /** By name. */
  readonly hashes: ReadonlyMap<string, PasswordHash>;
  readonly checks: PasswordChecks;
  /** Random bytes: the HMAC key for remembered pairs. */
  readonly key: Uint8Array;
}

/** The number of pairs of a name and a password that are remembered as right. */
const maxRemembered = 10_000;

/** A check under way, and the clients that wait for it. */
interface UnderWay {
  readonly result: Promise<string | undefined>;
  readonly askers: WaitingClient[];
}

/**
 * Creates a check. A pair is remembered only by its HMAC, and only when it was right. Requests with a pair that is being checked wait
 * for the same check: a page, or a player, opens many connections at once.
 */
export function createBasicCheck({ hashes, checks, key }: BasicCheckParts): BasicCheck {
  const decoys = [...hashes.values()];
  const remembered = new LRUCache<string, string>({ max: maxRemembered });
  const underWay = new Map<string, UnderWay>();
  const digestOf = (text: string): Buffer => createHmac('sha256', key).update(text).digest();

  const check = async (
    { name, password }: BasicCredentials,
    askers: readonly WaitingClient[],
  ): Promise<string | undefined> => {
    const [{ client }] = askers as [WaitingClient];
    const known = hashes.get(name);
    // An unknown name costs as much as a known name, always the same one.
    const hash = known ?? decoys[digestOf(name).readUInt32LE(0) % decoys.length];
    if (hash === undefined) return undefined;
    const isWanted = () => askers.some((asker) => asker.isWanted());
    const isRight = await checks({ password, hash, client, isWanted });
    return isRight && known !== undefined ? name : undefined;
  };

  return (credentials, asker) => {
    // Neither part contains control characters, so \0 separates them.
    const pair = digestOf(`${credentials.name}\0${credentials.password}`).toString('base64');
    const name = remembered.get(pair);
    if (name !== undefined) return name;
    const running = underWay.get(pair);
    if (running !== undefined) {
      running.askers.push(asker);
      return running.result;
    }
    const askers = [asker];
    const result = check(credentials, askers)
      .then((found) => {
        if (found !== undefined) remembered.set(pair, found);
        return found;
      })
      .finally(() => underWay.delete(pair));
    underWay.set(pair, { result, askers });
    return result;
  };
}

/** The limits of password checks. */
export interface PasswordCheckLimits {
  /** Checks at a time. Each takes a thread of Node's pool, which also reads files. */
  readonly concurrent: number;
  /** Checks that wait or run, of all clients. */
  readonly total: number;
  /** Checks that wait or run, of one client. */
  readonly perClient: number;
}

/** A password, and the hash that it is compared with. */
export interface PasswordCheck {
  readonly password: string;
  readonly hash: PasswordHash;
  readonly client: Client;
  /** Returns whether a client still waits for the result. */
  readonly isWanted: () => boolean;
}

/**
 * Checks a password; false also where no client waits for the result any more. Rejects with `ProxyError` where too many checks wait
 * or run: `too_many_requests` by the limit of the client, `credentials_unchecked` by the limit of all clients.
 */
type PasswordChecks = (check: PasswordCheck) => Promise<boolean>;

/** Retry-After, in seconds. By then all or nearly all checks that wait now are done. */
const retryAfterSeconds = '5';

/** Creates the checks. A process has one instance, because it has one pool of threads. */
export function createPasswordChecks(limits: PasswordCheckLimits): PasswordChecks {
  const places = new ConcurrencyCounts();
  const waiting: (() => void)[] = [];
  let running = 0;

  const begin = async (): Promise<void> => {
    if (running < limits.concurrent) {
      running += 1;
      return;
    }
    // Called by a check that ends and hands over its turn.
    await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const end = (): void => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return async ({ password, hash, client, isWanted }) => {
    const name = clientName(client.address);
    if (places.of(name) >= limits.perClient) throw refusal('too_many_requests');
    if (places.total >= limits.total) throw refusal('credentials_unchecked');
    const leave = places.take(name);
    await begin();
    try {
      return isWanted() && (await isPassword(password, hash));
    } finally {
      end();
      leave();
    }
  };
}

function refusal(code: 'too_many_requests' | 'credentials_unchecked'): ProxyError {
  return new ProxyError(code, {
    detail: 'too many passwords wait to be checked',
    fields: [['retry-after', retryAfterSeconds]],
  });
}

/** The cost of a hash: N is 2^`ln`. Memory is 128·N·r bytes; work is proportional to N·r·p. */
interface HashCost {
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

/** A hash that a password is compared with. */
interface PasswordHash extends HashCost {
  readonly salt: Uint8Array;
  readonly digest: Uint8Array;
}

/** A hash, or why a text is not an accepted one; the reason reveals nothing of the text. */
type PasswordHashReading =
  | { readonly kind: 'hash'; readonly hash: PasswordHash }
  | { readonly kind: 'refused'; readonly reason: string };

/** 32 MiB, and about a fifth of a second on one core. */
export const defaultCost: HashCost = { ln: 15, r: 8, p: 3 };

/** The size of the salt of a new hash, in bytes. */
export const saltBytes = 16;

const digestBytes = 32;

/** A configured hash must not take all memory, nor a thread for long. It must not be so cheap that it protects nothing. */
const bounds = { ln: [10, 20], r: [1, 32], p: [1, 16] } as const;
const maxMemoryBytes = 128 * 1024 * 1024;
const maxWork = 2 ** 22;

const form = /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})$/;

/** The beginnings of hashes of other kinds. */
const otherForms = /^(?:\$2[abxy]?\$|\$apr1\$|\$argon2|\$[156y]\$|\{)/;

/** Parses `$scrypt$ln=15,r=8,p=3$salt$digest`, salt and digest in Base64 without padding. */
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

/** Hashes a password with this salt; returns the form that `parsePasswordHash` reads. */
export async function formatPasswordHash(password: string, salt: Uint8Array, cost = defaultCost): Promise<string> {
  const digest = await derive(password, salt, digestBytes, cost);
  return `$scrypt$ln=${cost.ln},r=${cost.r},p=${cost.p}$${base64(salt)}$${base64(digest)}`;
}

/** Checks a password against a hash. Takes a thread of the pool, and the same time for every password. */
export async function isPassword(password: string, hash: PasswordHash): Promise<boolean> {
  const digest = await derive(password, hash.salt, hash.digest.length, hash);
  return timingSafeEqual(digest, hash.digest);
}

/** RFC 7617 §2.1 has clients send the composed form (NFC). Passwords in another form are accepted too. */
function derive(password: string, salt: Uint8Array, sizeBytes: number, { ln, r, p }: HashCost): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const options = { N: 2 ** ln, r, p, maxmem: 2 * maxMemoryBytes };
  scrypt(password.normalize('NFC'), salt, sizeBytes, options, (error, digest) => {
    if (error === null) resolve(digest);
    else reject(error);
  });
  return promise;
}

const noHash = 'the text after the name is not a hash; "rangeway hash-password" makes one';
const otherHash = `${noHash} of the kind that is used here, scrypt`;

function refused(reason: string): PasswordHashReading {
  return { kind: 'refused', reason };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('base64')
    .replace(/={1,2}$/, '');
}
