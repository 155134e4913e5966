import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dnsNames, readCertificate } from '../../src/listener/accept/tls.ts';
import { exactCertificate, testCertificate, writeTestCertificate } from '../support/values/tls-certificate.ts';

describe('dnsNames', () => {
  it.each<[text: string, names: string[]]>([
    ['DNS:a.example', ['a.example']],
    ['DNS:A.Example, DNS:*.b.example', ['a.example', '*.b.example']],
    ['IP Address:192.0.2.1, DNS:a.example, email:DNS:b@c, URI:https://d.example/', ['a.example']],
    ['DNS:"a.example, DNS:b.example", DNS:c.example', ['c.example']],
    ['URI:"x, DNS:evil.example", DNS:c.example', ['c.example']],
    ['URI:"\\", DNS:evil.example", DNS:c.example', ['c.example']],
    ['IP Address:0:0:0:0:0:0:0:1', []],
    ['', []],
  ])('%j', (text, names) => expect(dnsNames(text)).toEqual(names));
});

describe('readCertificate', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'rangeway-certificate-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it('returns names and validity', async () => {
    const certificate = await readCertificate(await writeTestCertificate(dir), {});
    expect(certificate).toMatchObject({
      names: ['localhost', '*.example.org'],
      validFrom: Date.UTC(2020, 0, 1),
      validTo: Date.UTC(2120, 0, 1),
    });
    expect((await readCertificate(await writeTestCertificate(dir, 'b', exactCertificate), {})).names).toEqual([
      'exact.example.org',
      'xn--bcher-kva.example',
    ]);
  });

  const encryptedKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'secret',
  });

  it.each<[what: string, pair: { cert: string; key: string }, message: RegExp]>([
    [
      'a certificate file without a certificate',
      { ...testCertificate, cert: 'nothing' },
      /^cannot use .*a\.pem: it holds no certificate in PEM$/,
    ],
    [
      'a key file without a key',
      { ...testCertificate, key: 'nothing' },
      /^cannot use .*a\.key: it holds no private key in PEM$/,
    ],
    [
      'a certificate and a key swapped',
      { key: testCertificate.cert, cert: testCertificate.key },
      /a\.pem: it holds no certificate/,
    ],
    ['an encrypted key', { ...testCertificate, key: String(encryptedKey) }, /a\.key: the key is encrypted$/],
    [
      'the key of another certificate',
      { ...testCertificate, key: exactCertificate.key },
      /a\.pem: the key in .*a\.key is not the one/,
    ],
  ])('refuses %s, and names the file', async (_what, pair, message) => {
    const files = await writeTestCertificate(dir, 'a', pair);
    await expect(readCertificate(files, {})).rejects.toMatchObject({
      name: 'ListenFault',
      message: expect.stringMatching(message),
    });
  });

  it('refuses files that are missing, directories, or empty', async () => {
    const files = await writeTestCertificate(dir);
    const absent = join(dir, 'absent');
    await expect(readCertificate({ ...files, keyFile: absent }, {})).rejects.toThrow(`cannot use ${absent}: ENOENT`);
    await expect(readCertificate({ ...files, certFile: dir }, {})).rejects.toThrow(`cannot use ${dir}: EISDIR`);
    await writeFile(files.keyFile, '');
    await expect(readCertificate(files, {})).rejects.toThrow('no private key');
  });
});
