/** Unusable secrets, through the executable: it does not start, gives the reason in one line, and discloses no secret. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { startRangeway } from '../support/processes/rangeway-process.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-secrets-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

describe('secrets that cannot be used', () => {
  it.each<[access: object, want: RegExp]>([
    [{ basic: 'env:TEST_UNSET' }, /^rangeway: cannot start: the secret env:TEST_UNSET is not set\n$/],
    [{ basic: 'file:none' }, /^rangeway: cannot start: the secret file:\S+\/none cannot be read: ENOENT[^\n]*\n$/],
    [
      { basic: 'env:TEST_PLAIN' },
      /env:TEST_PLAIN has a fault in line 2: the text after the name is not a hash; "rangeway hash-password" makes one\n$/,
    ],
    [
      { basic: 'env:TEST_BCRYPT' },
      /env:TEST_BCRYPT has a fault in line 1: the text after the name is not a hash; "rangeway hash-password" makes one of the kind that is used here, scrypt\n$/,
    ],
    [{ basic: 'env:TEST_HUGE' }, /env:TEST_HUGE has a fault in line 1: ln is not between 10 and 20\n$/],
    [{ bearer: 'env:TEST_SHORT' }, /env:TEST_SHORT has a fault in line 1: the token has fewer than 16 characters\n$/],
    [{ apiKey: 'env:TEST_SHORT' }, /env:TEST_SHORT has a fault in line 1: the key has fewer than 16 characters\n$/],
    [
      { signedUrls: 'env:TEST_SHORT' },
      /env:TEST_SHORT has a fault in line 1: the secret has fewer than 16 characters\n$/,
    ],
    [{ bearer: 'env:TEST_TWICE' }, /env:TEST_TWICE has a fault in line 2: the name is that of line 1\n$/],
    [{ bearer: 'env:TEST_SHARED' }, /env:TEST_SHARED has a fault in line 3: the secret is that of line 1\n$/],
    [{ apiKey: 'env:TEST_COMMENTS' }, /env:TEST_COMMENTS has no line "name:secret"\n$/],
  ])('%j: keep the server from starting', async (access, want) => {
    const file = join(dir, 'refused.json');
    const route = { origin: 'http://127.0.0.1:1', access };
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', store: { type: 'memory' }, routes: [route] }));
    const refused = startRangeway(['--config', file], {
      TEST_PLAIN: '# plain\nada:hidden',
      TEST_BCRYPT: 'ada:$2y$05$hiddenhiddenhiddenhide',
      TEST_HUGE: 'ada:$scrypt$ln=40,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$hiddenhiddenhiddenhidden',
      TEST_SHORT: 'ada:hidden',
      TEST_TWICE: 'ada:hidden-0123456789\nada:hidden-9876543210',
      TEST_SHARED: 'ada:hidden-0123456789\n\nbob:hidden-0123456789',
      TEST_COMMENTS: '# ada:hidden',
    });
    expect(await refused.ended()).toBe(1);
    expect(refused.output()).toMatch(want);
    expect(refused.output()).not.toContain('hidden');
  });
});
