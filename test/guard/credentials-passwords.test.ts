/** Passwords of a route: when they are checked, and which results are remembered. */

import { describe, expect, it } from 'vitest';
import { createCredentialCheck } from '../../src/guard/access/access.ts';
import { createBasicCheck } from '../../src/guard/access/passwords.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import {
  base64,
  client,
  createRules,
  hashOf,
  key,
  passwords,
  requestWith,
  routedOf,
  verdictOf,
} from '../support/proxies/credential-ground.ts';

const basicChallenge = 'www-authenticate: Basic realm="Films", charset="UTF-8"';

describe('passwords', () => {
  const ada = `Authorization: Basic ${base64('ada:love')}`;

  it('are accepted in the same tick after a first successful check', async () => {
    const { rules, checks } = createRules(['basic']);
    const check = createCredentialCheck(rules);
    const request = requestWith([ada]);
    const first = check(request, routedOf(request), client);
    expect(first).toBeInstanceOf(Promise);
    await first;
    expect(check(request, routedOf(request), client)).toMatchObject({ user: 'ada' });
    expect(checks).toHaveLength(1);
  });

  it('are checked each time where they are wrong', async () => {
    const { rules, checks } = createRules(['basic']);
    for (const value of ['ada:hate', 'ada:hate', 'eve:love', 'eve:love']) {
      expect(await verdictOf(rules, requestWith([`Authorization: Basic ${base64(value)}`]))).toMatch(/^401/);
    }
    expect(checks).toHaveLength(4);
  });

  it('of an unknown name are checked against the hash of a known name, always the same', async () => {
    const { rules, checks } = createRules(['basic']);
    for (let index = 0; index < 40; index += 1) {
      const line = `Authorization: Basic ${base64(`eve${index % 20}:${index}`)}`;
      expect(await verdictOf(rules, requestWith([line]))).toMatch(/^401/);
    }
    const salts = checks.map(({ hash }) => Buffer.from(hash.salt).toString());
    expect(salts.slice(0, 20)).toEqual(salts.slice(20));
    expect(new Set(salts)).toEqual(new Set(passwords.values()));
  });

  it('of an unknown name are never accepted, even where they match the hash', async () => {
    const { rules } = createRules(['basic']);
    for (const password of passwords.values()) {
      for (let index = 0; index < 10; index += 1) {
        const line = `Authorization: Basic ${base64(`eve${index}:${password}`)}`;
        expect(await verdictOf(rules, requestWith([line]))).toMatch(/^401/);
      }
    }
  });

  it('are not checked where other credentials are accepted', async () => {
    const { rules, checks } = createRules(['basic', 'apiKey']);
    await verdictOf(rules, requestWith([ada, 'X-API-Key: key-of-the-app-01']));
    expect(checks).toHaveLength(0);
  });

  it('are checked once for concurrent requests with the same password', async () => {
    const { rules, checks } = createRules(['basic']);
    const verdicts = await Promise.all(Array.from({ length: 20 }, () => verdictOf(rules, requestWith([ada]))));
    expect(new Set(verdicts)).toEqual(new Set(['passes as ada']));
    expect(checks).toHaveLength(1);
  });

  it('are not checked after all clients that sent them have left', async () => {
    const wanted: boolean[] = [];
    const turn = Promise.withResolvers<void>();
    const basic = createBasicCheck({
      hashes: new Map([['ada', hashOf('love')]]),
      checks: async ({ isWanted }) => {
        await turn.promise;
        wanted.push(isWanted());
        return false;
      },
      key,
    });
    const { rules } = createRules([]);
    const leaving = [new AbortController(), new AbortController(), new AbortController()];
    const verdicts = leaving.map(({ signal }, index) => {
      const line = `Authorization: Basic ${base64(index === 2 ? 'ada:other' : 'ada:love')}`;
      return verdictOf({ ...rules, basic }, { ...requestWith([line]), signal });
    });
    leaving[0]?.abort();
    leaving[2]?.abort();
    turn.resolve();
    expect(await Promise.all(verdicts)).toEqual([
      '499 client_gone',
      `401 credentials_refused; ${basicChallenge}`,
      '499 client_gone',
    ]);
    expect(wanted).toEqual([true, false]);
  });

  it('that cannot be checked are refused with 503, and checked by a later request', async () => {
    const { rules } = createRules([]);
    let isBusy = true;
    const basic = createBasicCheck({
      hashes: new Map([['ada', hashOf('love')]]),
      checks: async () => {
        if (isBusy) throw new ProxyError('credentials_unchecked', { fields: [['retry-after', '5']] });
        return true;
      },
      key,
    });
    expect(await verdictOf({ ...rules, basic }, requestWith([ada]))).toBe('503 credentials_unchecked; retry-after: 5');
    isBusy = false;
    expect(await verdictOf({ ...rules, basic }, requestWith([ada]))).toBe('passes as ada');
  });
});
