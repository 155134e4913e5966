/** Checks of passwords: how many there are at a time, and who has to come again. */

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

/** Checks that tell when each had its turn. */
function createAsked(limits: Partial<PasswordCheckLimits>) {
  const checks = createPasswordChecks({ concurrent: 1, total: 100, perClient: 100, ...limits });
  const turns: number[] = [];
  let asked = 0;
  return {
    turns,
    /** Resolves with whether the password is right, or why it was not checked. */
    ask(address = '192.0.2.7', password = 'love', isStillWanted = true): Promise<boolean | string> {
      const number = asked++;
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
  it('as right or wrong', async () => {
    const { ask } = createAsked({});
    expect([await ask(), await ask('', 'hate')]).toEqual([true, false]);
  });

  it('so many at a time, in the order in which they came', async () => {
    const { ask, turns } = createAsked({ concurrent: 2 });
    const all = [ask(), ask(), ask(), ask(), ask()];
    await Promise.resolve();
    expect(turns).toEqual([0, 1]);
    expect(await Promise.all(all)).toEqual([true, true, true, true, true]);
    expect(turns).toEqual([0, 1, 2, 3, 4]);
  });

  it('not at all where nobody waits for it any more', async () => {
    const { ask } = createAsked({});
    expect(await ask('', 'love', false)).toBe(false);
    expect(await ask()).toBe(true);
  });

  it('later where too many are', async () => {
    const { ask } = createAsked({ total: 3 });
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
  ])('later where one client has sent too many: %j and %j', async (one, other, areOne) => {
    const { ask } = createAsked({ perClient: 1 });
    const all = [ask(one), ask(other)];
    expect(await Promise.all(all)).toEqual([true, areOne ? 'too_many_requests retry-after,5' : true]);
    expect(await ask(other)).toBe(true);
  });

  it('for others while one client sends too many', async () => {
    const { ask } = createAsked({ perClient: 2, total: 4 });
    const flood = Array.from({ length: 50 }, () => ask('192.0.2.66', 'guess'));
    expect(await ask('192.0.2.7')).toBe(true);
    const refused = (await Promise.all(flood)).filter((result) => typeof result === 'string');
    expect(refused).toHaveLength(48);
  });

  it('and leave nothing behind when one of them fails', async () => {
    const checks = createPasswordChecks({ concurrent: 1, total: 1, perClient: 1 });
    const check = { password: 'love', hash, client: { address: 'a', forwardedFor: [] }, isWanted: () => true };
    await expect(checks({ ...check, hash: { ...hash, ln: 30 } })).rejects.toThrow();
    expect(await checks(check)).toBe(true);
  });
});
