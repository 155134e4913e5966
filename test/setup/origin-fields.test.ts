/** The rules for fields that are sent to an origin, and their part in cache keys. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import type { OriginFieldRules } from '../../src/routing/router.ts';
import { readOriginFieldRules } from '../../src/setup/origin.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-origin-fields-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));
beforeEach(() => void vi.stubEnv('RANGEWAY_TEST_SECRET', 'Bearer s3cret'));
afterEach(() => void vi.unstubAllEnvs());

async function rulesOf(toOrigin: object, more: object = {}): Promise<OriginFieldRules | undefined> {
  const checked = checkConfig({ routes: [{ origin: 'http://origin.test', fields: { toOrigin }, ...more }] }, dir);
  const [route] = checked.kind === 'ok' ? checked.config.routes : [];
  if (route === undefined) throw new Error(JSON.stringify(checked));
  return await readOriginFieldRules(route);
}

const secret = { setSecret: { Authorization: 'env:RANGEWAY_TEST_SECRET' } };
const cors = { cors: { origins: ['https://a.test'] } };

describe('readOriginFieldRules', () => {
  it('returns undefined where there are no rules', async () => expect(await rulesOf({})).toBeUndefined());

  it.each<[toOrigin: object, removed: readonly string[], constant: readonly string[]]>([
    [{ remove: ['Cookie', 'Referer'] }, ['cookie', 'referer'], []],
    [{ set: { 'X-A': '1' } }, ['x-a'], ['X-A: 1']],
    [{ add: { 'X-A': '1' } }, [], ['X-A: 1']],
    [{ set: { X_User: '1' } }, ['x-user'], ['X_User: 1']],
    [secret, ['authorization'], ['Authorization: Bearer s3cret']],
    [
      { remove: ['Cookie'], set: { A: '1' }, add: { A: '2', Cookie: 'c' }, ...secret },
      ['cookie', 'a', 'authorization'],
      ['A: 1', 'Authorization: Bearer s3cret', 'A: 2', 'Cookie: c'],
    ],
  ])('%j', async (toOrigin, removed, constant) => {
    const rules = await rulesOf(toOrigin);
    expect([...(rules?.removed ?? [])]).toEqual(removed);
    expect(rules?.constant).toEqual(fieldsOf(...constant));
    expect(rules?.removedFromShared).toEqual(new Set());
  });

  it('removes Origin from shared requests where the proxy answers for CORS', async () => {
    expect(await rulesOf({}, cors)).toMatchObject({ removed: new Set(), removedFromShared: new Set(['origin']) });
  });

  it('reads a secret from a file, without the line end', async () => {
    await writeFile(join(dir, 'secret'), 'Basic eA==\n');
    const rules = await rulesOf({ setSecret: { Authorization: `file:${join(dir, 'secret')}` } });
    expect(rules?.constant).toEqual(fieldsOf('Authorization: Basic eA=='));
  });

  it.each<[name: string, source: string, text: string | undefined, message: string]>([
    ['missing', 'env:RANGEWAY_TEST_NONE', undefined, 'the secret env:RANGEWAY_TEST_NONE is not set'],
    ['empty', 'env:RANGEWAY_TEST_SECRET', '', 'the secret env:RANGEWAY_TEST_SECRET is empty'],
    ['of two lines', 'env:RANGEWAY_TEST_SECRET', 'a\nX-Evil: 1', 'is no value that a field can have'],
    ['with a control character', 'env:RANGEWAY_TEST_SECRET', 'a\u0000b', 'is no value that a field can have'],
    ['with spaces around it', 'env:RANGEWAY_TEST_SECRET', ' a ', 'is no value that a field can have'],
    ['not ASCII', 'env:RANGEWAY_TEST_SECRET', 'caf\u00e9', 'is no value that a field can have'],
  ])('fails for a secret that is %s, without showing it', async (_name, source, text, message) => {
    // An environment variable cannot contain NUL.
    if (text?.includes('\u0000') === true) await writeFile(join(dir, 'nul'), text);
    else if (text !== undefined) vi.stubEnv('RANGEWAY_TEST_SECRET', text);
    const named = text?.includes('\u0000') === true ? `file:${join(dir, 'nul')}` : source;
    const thrown = await rulesOf({ setSecret: { 'X-A': named } }).catch((error: Error) => error.message);
    expect(thrown).toContain(message);
    expect(thrown).not.toContain('X-Evil');
  });
});

describe('the scope of rules', () => {
  const all: readonly (readonly [toOrigin: object, more?: object])[] = [
    [{ remove: ['Cookie'] }],
    [{ remove: ['Cookie', 'Referer'] }],
    [{ set: { Cookie: 'a' } }],
    [{ set: { Cookie: 'b' } }],
    [{ add: { Cookie: 'a' } }],
    [{ remove: ['Cookie'], add: { Cookie: 'a' } }],
    [secret],
    [{ ...secret, remove: ['Cookie'] }],
    [{}, cors],
    [{ remove: ['Cookie'] }, cors],
    [{ remove: ['Origin'] }],
  ];

  it('differs for different rules, and is the same for equal ones', async () => {
    const scopes = await Promise.all(all.map(async ([rules, more]) => (await rulesOf(rules, more))?.scope));
    const known = scopes[4];
    // `set` has the same effect as `remove` and `add` together.
    expect(scopes.filter((scope) => scope !== undefined)).toHaveLength(all.length);
    expect(new Set(scopes).size).toBe(all.length - 1);
    expect(scopes[5]).toBe(scopes[2]);
    expect((await rulesOf(all[4]?.[0] ?? {}))?.scope).toBe(known);
    expect((await rulesOf({ remove: ['Referer', 'Cookie'] }))?.scope).toBe(scopes[1]);
  });

  it('is a short hash that changes with a secret', async () => {
    const before = (await rulesOf(secret))?.scope ?? '';
    expect(before).toMatch(/^[0-9a-f]{16}$/);
    vi.stubEnv('RANGEWAY_TEST_SECRET', 'Bearer another');
    expect((await rulesOf(secret))?.scope).not.toBe(before);
  });
});
