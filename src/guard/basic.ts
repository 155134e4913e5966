/** Names and passwords (RFC 7617): who they belong to, and those that were right lately. */

import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { BasicCredentials } from './authorization.ts';
import type { PasswordCheck, PasswordChecks } from './password-checks.ts';
import type { PasswordHash } from './password-hash.ts';

/** Who asks, and whether the answer is still wanted. */
export type Asker = Pick<PasswordCheck, 'client' | 'isWanted'>;

/**
 * Tells the name that credentials belong to, or undefined for those that are wrong: at once for those that were right before,
 * otherwise by a promise, which rejects as `PasswordChecks` do.
 */
export type BasicCheck = (
  credentials: BasicCredentials,
  asker: Asker,
) => string | undefined | Promise<string | undefined>;

/** What a check is made of. */
export interface BasicCheckParts {
  /** By name. */
  readonly hashes: ReadonlyMap<string, PasswordHash>;
  readonly checks: PasswordChecks;
  /** Random bytes: the key of what is remembered. */
  readonly key: Uint8Array;
}

/** How many pairs of a name and a password are remembered as right. */
const maxRemembered = 10_000;

/** A check under way, and those who wait for it. */
interface UnderWay {
  readonly result: Promise<string | undefined>;
  readonly askers: Asker[];
}

/**
 * Creates a check. A pair is remembered by its HMAC only, and only once it was right. Those who come with the same pair while
 * it is checked wait for the same check: a page, or a player, opens many connections at once.
 */
export function createBasicCheck({ hashes, checks, key }: BasicCheckParts): BasicCheck {
  const decoys = [...hashes.values()];
  const remembered = new LRUCache<string, string>({ max: maxRemembered });
  const underWay = new Map<string, UnderWay>();
  const digestOf = (text: string): Buffer => createHmac('sha256', key).update(text).digest();

  const check = async ({ name, password }: BasicCredentials, askers: readonly Asker[]): Promise<string | undefined> => {
    const [{ client }] = askers as [Asker];
    const known = hashes.get(name);
    // An unknown name costs what some known one costs, and always the same one.
    const hash = known ?? decoys[digestOf(name).readUInt32LE(0) % decoys.length];
    if (hash === undefined) return undefined;
    const isWanted = () => askers.some((asker) => asker.isWanted());
    const isRight = await checks({ password, hash, client, isWanted });
    return isRight && known !== undefined ? name : undefined;
  };

  return (credentials, asker) => {
    // There are no control characters in either.
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
