import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { gatherFiles } from '../../../src/cli/doctor/gather-secrets.ts';
import { type FileFacts, judgeFiles } from '../../../src/cli/doctor/secrets.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';

const none: FileFacts = { config: undefined, secrets: [], faults: [] };

describe('judgeFiles', () => {
  it('nothing', () => expect(judgeFiles(none)).toEqual([]));

  it.each<[mode: number, want: string]>([
    [0o100644, 'ok config [/r.json] it is valid'],
    [
      0o100666,
      'warning config [/r.json] it is valid, but every user of this machine can change it, and so where requests go → chmod o-w /r.json',
    ],
  ])('a configuration file with mode %o', (mode, want) => {
    expect(linesOf(judgeFiles({ ...none, config: { path: '/r.json', mode } }))).toEqual([want]);
  });

  it.each<[mode: number | undefined, want: string]>([
    [0o100600, 'ok secret [admin.token] file:/t can be used'],
    [0o100640, 'ok secret [admin.token] file:/t can be used'],
    [undefined, 'ok secret [admin.token] file:/t can be used'],
    [0o100644, 'warning secret [admin.token] every user of this machine can read file:/t (mode 0644) → chmod o= /t'],
    [0o100602, 'warning secret [admin.token] every user of this machine can change file:/t (mode 0602) → chmod o= /t'],
  ])('a secret with mode %s', (mode, want) => {
    const secret = { option: 'admin.token', source: 'file:/t', mode };
    expect(linesOf(judgeFiles({ ...none, secrets: [secret] }))).toEqual([want]);
  });

  it.each<[reason: string, want: string]>([
    [
      'the secret env:X is not set',
      'problem secret [admin.token] the secret env:X is not set → set the variable where the server is started',
    ],
    ['the secret file:/t cannot be read: EACCES: no', '→ give the user of the server the right to read it'],
    ['the secret file:/t cannot be read: ENOENT: no', '→ create it'],
    [
      'the secret file:/t cannot be used: a token has at least 16 characters',
      '→ openssl rand -base64 32 makes a good one',
    ],
    ['the secret file:/t has a fault in line 2: odd', '→ correct it'],
    ['the error page /e.html is larger than 1 MiB', 'problem config [admin.token] the error page'],
  ])('%s', (reason, want) => {
    const secrets = [{ option: 'admin.token', source: 'file:/t', mode: 0o100644 }];
    const lines = linesOf(judgeFiles({ ...none, secrets, faults: [{ option: 'admin.token', reason }] }));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(want);
  });
});

describe('gatherFiles', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-doctor-secrets-'));
  afterAll(() => rmSync(dir, { recursive: true }));
  const write = (name: string, text: string, mode: number) => {
    writeFileSync(join(dir, name), text, { mode });
    return `file:${join(dir, name)}`;
  };

  it('reads what a start reads, and permissions', async () => {
    const file = write('r.json', '{}', 0o640).slice('file:'.length);
    const config = examinedConfig({
      admin: { token: write('token', 'a-token-of-a-good-length\n', 0o600) },
      routes: [
        {
          origin: 'http://127.0.0.1:3000',
          access: {
            basic: write('users', 'ada:not a hash\n', 0o600),
            bearer: write('tokens', 'ada:another-token-of-a-good-length\n', 0o644),
            apiKey: `file:${join(dir, 'absent')}`,
          },
          fields: { toOrigin: { setSecret: { Authorization: 'env:RANGEWAY_DOCTOR_TEST_ABSENT' } } },
        },
      ],
    });
    expect(await gatherFiles(config, file)).toEqual({
      config: { path: file, mode: 0o100640 },
      secrets: [
        { option: 'admin.token', source: `file:${dir}/token`, mode: 0o100600 },
        { option: 'routes[0].access.basic', source: `file:${dir}/users`, mode: 0o100600 },
        { option: 'routes[0].access.bearer', source: `file:${dir}/tokens`, mode: 0o100644 },
        { option: 'routes[0].access.apiKey', source: `file:${dir}/absent`, mode: undefined },
        {
          option: 'routes[0].fields.toOrigin.setSecret.authorization',
          source: 'env:RANGEWAY_DOCTOR_TEST_ABSENT',
          mode: undefined,
        },
      ],
      faults: [
        { option: 'routes[0].access.apiKey', reason: expect.stringContaining('ENOENT') },
        {
          option: 'routes[0].fields.toOrigin.setSecret.authorization',
          reason: 'the secret env:RANGEWAY_DOCTOR_TEST_ABSENT is not set',
        },
        { option: 'routes[0].access.basic', reason: expect.stringContaining('has a fault in line 1') },
      ],
    });
  });

  it('reads the parts of a key that signs requests', async () => {
    const signing = {
      type: 'sigv4',
      region: 'eu-central-1',
      accessKeyId: write('id', 'a/slash\n', 0o600),
      secretAccessKey: write('key', 'hunter2\n', 0o644),
      sessionToken: 'env:RANGEWAY_DOCTOR_TEST_ABSENT',
    };
    const facts = await gatherFiles(
      examinedConfig({ routes: [{ origin: { url: 'http://127.0.0.1:3000', signing } }] }),
      undefined,
    );
    expect(facts.secrets.map(({ option, mode }) => [option, mode])).toEqual([
      ['routes[0].origin.signing.accessKeyId', 0o100600],
      ['routes[0].origin.signing.secretAccessKey', 0o100644],
      ['routes[0].origin.signing.sessionToken', undefined],
    ]);
    expect(facts.faults).toEqual([
      { option: 'routes[0].origin.signing.sessionToken', reason: expect.stringContaining('is not set') },
      { option: 'routes[0].origin.signing.accessKeyId', reason: expect.stringContaining('is no name of a key') },
    ]);
    expect(JSON.stringify(judgeFiles(facts))).not.toContain('hunter2');
  });

  it('refuses a short token, and never repeats a secret', async () => {
    const config = examinedConfig({ admin: { token: write('short', 'hunter2\n', 0o644) } });
    const facts = await gatherFiles(config, undefined);
    expect(facts.faults).toEqual([{ option: 'admin.token', reason: expect.stringContaining('cannot be used') }]);
    expect(JSON.stringify(judgeFiles(facts))).not.toContain('hunter2');
  });
});
