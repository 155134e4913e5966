import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { afterAll, describe, expect, it } from 'vitest';
import {
  type CertificateFact,
  type CertificateFacts,
  judgeCertificates,
} from '../../../src/cli/doctor/certificates.ts';
import { gatherCertificates } from '../../../src/cli/doctor/gather-certificates.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';
import {
  exactCertificate,
  expiredCertificate,
  testAuthority,
  testCertificate,
} from '../../support/values/tls-certificate.ts';

const now = Date.parse('2026-12-01');
const inDays = (count: number) => now + count * 86_400_000;

const leaf: CertificateFact = {
  subject: 'media.example.org',
  issuer: 'R3',
  names: ['media.example.org', '*.cdn.example.org'],
  addresses: [],
  validFrom: inDays(-30),
  validTo: inDays(60.5),
  isSelfSigned: false,
  isSignedByNext: true,
  isOfKey: true,
};
const middle: CertificateFact = {
  ...leaf,
  subject: 'R3',
  issuer: 'Root',
  names: [],
  validTo: inDays(500),
  isSignedByNext: undefined,
  isOfKey: false,
};

const good: CertificateFacts = {
  option: 'listen[0].tls.certificates[0]',
  use: 'server',
  certFile: '/tls/a.pem',
  keyFile: '/tls/a.key',
  fault: undefined,
  certificates: [leaf, middle],
  isIssuerKnown: true,
  keyMode: 0o100600,
};

const listen = [{ address: '443', tls: { certificates: [{ certFile: '/tls/a.pem', keyFile: '/tls/a.key' }] } }];

function judged(change: Partial<CertificateFacts>, options: object = {}): string[] {
  return linesOf(judgeCertificates([{ ...good, ...change }], examinedConfig({ listen, ...options }), now));
}

const where = '[listen[0].tls.certificates[0] (/tls/a.pem)]';

describe('judgeCertificates', () => {
  it.each<[what: string, change: Partial<CertificateFacts>, want: string]>([
    ['a good one', {}, `ok certificate ${where} for media.example.org, *.cdn.example.org, valid for 60 days`],
    [
      'many names',
      { certificates: [{ ...leaf, names: ['a', 'b', 'c', 'd', 'e'], addresses: ['::1'] }, middle] },
      `ok certificate ${where} for a, b, c, d, 2 more, valid for 60 days`,
    ],
    ['for a client', { use: 'client' }, `ok certificate ${where} for media.example.org, valid for 60 days`],
    [
      'authorities',
      { use: 'authority', keyFile: undefined },
      `ok certificate ${where} 2 authorities, valid for 60 days`,
    ],
    [
      'a file that cannot be read',
      { fault: 'cannot use /tls/a.pem: EACCES: permission denied', certificates: [] },
      `problem certificate ${where} cannot use /tls/a.pem: EACCES: permission denied → give the user of the server the right to read it: chgrp, and chmod 640`,
    ],
    [
      'an encrypted key',
      { fault: 'cannot use /tls/a.key: the key is encrypted' },
      '→ openssl pkey -in /tls/a.key -out KEY decrypts it',
    ],
    [
      'the certificate of the key behind another one',
      { fault: 'x', certificates: [{ ...middle, isOfKey: false }, leaf] },
      `problem certificate ${where} the certificate of the key is number 2 in the file, and has to be the first`,
    ],
    [
      'an expired one',
      { certificates: [{ ...leaf, validTo: inDays(-1.5) }, middle] },
      `problem certificate ${where} it has expired 1 day ago → renew it`,
    ],
    [
      'an expired issuer',
      { certificates: [leaf, { ...middle, validTo: inDays(-2.5) }] },
      `problem certificate ${where} number 2 in the file (R3) has expired 2 days ago`,
    ],
    [
      'one of the future',
      { certificates: [{ ...leaf, validFrom: inDays(1.5) }, middle] },
      `problem certificate ${where} it is valid in 2 days only`,
    ],
    [
      'one that expires this week',
      { certificates: [{ ...leaf, validTo: inDays(6.9) }, middle] },
      `warning certificate ${where} it expires in 6 days`,
    ],
    [
      'one that expires this month',
      { certificates: [{ ...leaf, validTo: inDays(29) }, middle] },
      `note certificate ${where} it expires in 29 days`,
    ],
    [
      'a file in the wrong order',
      { certificates: [{ ...leaf, isSignedByNext: false }, middle] },
      `warning certificate ${where} number 2 in the file has not signed number 1 (R3 has) → order the file`,
    ],
    [
      'a file without its issuer',
      { certificates: [{ ...leaf, isSignedByNext: undefined }], isIssuerKnown: false },
      `warning certificate ${where} the file lacks the certificate of R3, which has signed the last one: most clients refuse it → append it`,
    ],
    [
      'one that has signed itself',
      { certificates: [{ ...leaf, isSelfSigned: true, isSignedByNext: undefined }], isIssuerKnown: false },
      `note certificate ${where} it is signed by itself: clients that do not know it refuse it`,
    ],
    [
      'a private authority',
      { certificates: [leaf, { ...middle, isSelfSigned: true }], isIssuerKnown: false },
      `note certificate ${where} R3, which has signed it, is not a public authority`,
    ],
    [
      'no names',
      { certificates: [{ ...leaf, names: [] }, middle] },
      `problem certificate ${where} it names no host (subjectAltName): clients refuse it`,
    ],
    [
      'a key that all can read',
      { keyMode: 0o100644 },
      'warning certificate [listen[0].tls.certificates[0] (/tls/a.key)] every user of this machine can read the key → chmod o= /tls/a.key',
    ],
    ['a key that all can change', { keyMode: 0o100666 }, 'every user of this machine can change the key'],
    ['a key that the group can read', { keyMode: 0o100640 }, 'ok certificate'],
  ])('%s', (_what, change, want) => {
    const [line, ...others] = judged(change);
    expect(others).toEqual([]);
    expect(line).toContain(want);
  });

  it.each<[hosts: readonly string[], missing: readonly string[]]>([
    [['media.example.org', 'a.cdn.example.org', '*.cdn.example.org', '192.0.2.1', '[::1]'], []],
    [['other.example.org', 'media.example.org'], ['other.example.org']],
    [
      ['*.example.org', 'a.b.cdn.example.org'],
      ['*.example.org', 'a.b.cdn.example.org'],
    ],
  ])('hosts of routes %j', (hosts, missing) => {
    const routes = [{ match: { hosts }, origin: 'http://127.0.0.1:3000' }];
    const lines = judged({}, { routes }).filter((line) => !line.startsWith('ok '));
    expect(lines).toHaveLength(missing.length);
    for (const [at, host] of missing.entries()) {
      expect(lines[at]).toContain(`warning certificate [routes[0].match.hosts] no certificate names ${host}`);
    }
  });
});

describe('gatherCertificates', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-doctor-certificates-'));
  afterAll(() => rmSync(dir, { recursive: true }));

  const write = async (name: string, text: string, mode = 0o600) => {
    await writeFile(join(dir, name), text, { mode });
    return join(dir, name);
  };

  async function gathered(certFile: string, keyFile: string) {
    const config = examinedConfig({ listen: [{ address: '0', tls: { certificates: [{ certFile, keyFile }] } }] });
    const [facts, ...others] = await gatherCertificates(config);
    expect(others).toEqual([]);
    return facts;
  }

  it('reads a chain with its key', async () => {
    const certFile = await write('chain.pem', testCertificate.cert + testAuthority);
    const keyFile = await write('chain.key', testCertificate.key, 0o640);
    expect(await gathered(certFile, keyFile)).toEqual({
      option: 'listen[0].tls.certificates[0]',
      use: 'server',
      certFile,
      keyFile,
      fault: undefined,
      isIssuerKnown: false,
      keyMode: 0o100640,
      certificates: [
        {
          subject: 'localhost',
          issuer: 'Rangeway test authority',
          names: ['localhost', '*.example.org'],
          addresses: ['127.0.0.1', '0:0:0:0:0:0:0:1'],
          validFrom: Date.parse('2020-01-01'),
          validTo: Date.parse('2120-01-01'),
          isSelfSigned: false,
          isSignedByNext: true,
          isOfKey: true,
        },
        expect.objectContaining({
          subject: 'Rangeway test authority',
          isSelfSigned: true,
          isSignedByNext: undefined,
          isOfKey: false,
        }),
      ],
    });
  });

  it('sees a wrong order, a foreign key and other faults', async () => {
    const reversed = await write('reversed.pem', testAuthority + testCertificate.cert);
    const key = await write('good.key', testCertificate.key);
    expect(await gathered(reversed, key)).toMatchObject({
      fault: expect.stringContaining('is not the one of this certificate'),
      certificates: [{ isOfKey: false, isSignedByNext: false }, { isOfKey: true }],
    });
    const exact = await write('exact.pem', exactCertificate.cert);
    expect(await gathered(exact, key)).toMatchObject({
      fault: expect.stringContaining('is not the one of this certificate'),
      certificates: [{ isOfKey: false, isSelfSigned: true }],
    });
    expect(await gathered(join(dir, 'absent.pem'), key)).toMatchObject({
      fault: expect.stringContaining('ENOENT'),
      certificates: [],
    });
    expect(await gathered(key, key)).toMatchObject({
      fault: expect.stringContaining('no certificate'),
      certificates: [],
    });
    const broken = await write('broken.pem', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    expect(await gathered(broken, key)).toMatchObject({
      fault: expect.stringContaining('no certificate'),
      certificates: [],
    });
  });

  it('knows the authorities that Node brings', async () => {
    const certFile = await write('root.pem', rootCertificates[0] ?? '');
    const keyFile = await write('root.key', testCertificate.key);
    expect(await gathered(certFile, keyFile)).toMatchObject({ isIssuerKnown: true });
  });

  it('reads the files of origins', async () => {
    const caFile = await write('ca.pem', testAuthority);
    const certFile = await write('client.pem', expiredCertificate.cert);
    const keyFile = await write('client.key', expiredCertificate.key, 0o644);
    const origin = { url: 'https://files.example.org', caFile, certFile, keyFile };
    const config = examinedConfig({ routes: [{ origin }] });
    const facts = await gatherCertificates(config);
    expect(facts).toMatchObject([
      { option: 'routes[0].origin.caFile', use: 'authority', fault: undefined, keyFile: undefined, keyMode: undefined },
      { option: 'routes[0].origin.certFile', use: 'client', fault: undefined, keyMode: 0o100644 },
    ]);
    expect(linesOf(judgeCertificates(facts, config, now)).map((line) => line.split(' → ')[0])).toEqual([
      expect.stringMatching(/^ok certificate .*1 authority, valid for \d+ days$/),
      expect.stringMatching(/^problem certificate .*it has expired \d+ days ago$/),
      expect.stringMatching(/^warning certificate .*every user of this machine can read the key$/),
    ]);
  });
});
