/** Limits of password checks: how many run at a time, and which requests are refused. */

import { describe, expect, it } from 'vitest';
import {
  createPasswordChecks,
  formatPasswordHash,
  type PasswordCheckLimits,
  parsePasswordHash,
} from '../../src/guard/access/passwords.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

const reading = parsePasswordHash(await formatPasswordHash('love', Buffer.alloc(16), { ln: 10, r: 8, p: 1 }));
if (reading.kind === 'refused') throw new Error(reading.reason);
const { hash } = reading;

/** Returns password checks that record the order in which they run. */
function createRecordedChecks(limits: Partial<PasswordCheckLimits>) {
  const checks = createPasswordChecks({ concurrent: 1, total: 100, perClient: 100, ...limits });
  const turns: number[] = [];
  let count = 0;
  return {
    turns,
    /** Resolves with whether the password is right, or with the error code and fields of a refusal. */
    ask(address = '192.0.2.7', password = 'love', isStillWanted = true): Promise<boolean | string> {
      const number = count++;
      const isWanted = () => {
        turns.push(number);
        return isStillWanted;
      };
      return checks({ password, hash, client: { address, forwardedFor: [] }, isWanted }).catch((thrown) =>
        thrown instanceof ProxyError ? `${thrown.code} ${thrown.fields.join()}` : Promise.reject(thrown),
      );
    },
  };
}

describe('passwords are checked', () => {
  it('with the result right or wrong', async () => {
    const { ask } = createRecordedChecks({});
    expect([await ask(), await ask('', 'hate')]).toEqual([true, false]);
  });

  it('with limited concurrency, in the order of arrival', async () => {
    const { ask, turns } = createRecordedChecks({ concurrent: 2 });
    const all = [ask(), ask(), ask(), ask(), ask()];
    await Promise.resolve();
    expect(turns).toEqual([0, 1]);
    expect(await Promise.all(all)).toEqual([true, true, true, true, true]);
    expect(turns).toEqual([0, 1, 2, 3, 4]);
  });

  it('only while a request waits for the result', async () => {
    const { ask } = createRecordedChecks({});
    expect(await ask('', 'love', false)).toBe(false);
    expect(await ask()).toBe(true);
  });

  it('up to the total limit, and refused beyond it', async () => {
    const { ask } = createRecordedChecks({ total: 3 });
    const all = [ask('a'), ask('b'), ask('c'), ask('d')];
    expect(await Promise.all(all)).toEqual([true, true, true, 'credentials_unchecked retry-after,5']);
    expect(await ask('d')).toBe(true);
  });

  it.each<[one: string, other: string, areOne: boolean]>([
    ['192.0.2.7', '192.0.2.7', true],
    ['192.0.2.7', '192.0.2.8', false],
    ['2001:db8:1:2::1', '2001:db8:1:2:3:4:5:6', true],
    ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
    ['', '', true],
  ])('up to the limit of each client, and refused beyond it: %j and %j', async (one, other, areOne) => {
    const { ask } = createRecordedChecks({ perClient: 1 });
    const all = [ask(one), ask(other)];
    expect(await Promise.all(all)).toEqual([true, areOne ? 'too_many_requests retry-after,5' : true]);
    expect(await ask(other)).toBe(true);
  });

  it('for other clients while one client exceeds its limit', async () => {
    const { ask } = createRecordedChecks({ perClient: 2, total: 4 });
    const flood = Array.from({ length: 50 }, () => ask('192.0.2.66', 'guess'));
    expect(await ask('192.0.2.7')).toBe(true);
    const refused = (await Promise.all(flood)).filter((result) => typeof result === 'string');
    expect(refused).toHaveLength(48);
  });

  it('again after a check that failed with an error', async () => {
    const checks = createPasswordChecks({ concurrent: 1, total: 1, perClient: 1 });
    const check = { password: 'love', hash, client: { address: 'a', forwardedFor: [] }, isWanted: () => true };
    await expect(checks({ ...check, hash: { ...hash, ln: 30 } })).rejects.toThrow();
    expect(await checks(check)).toBe(true);
  });
});
