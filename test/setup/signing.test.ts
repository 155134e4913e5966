/** Private buckets behind the whole server: every request of a key reaches them with a right signature, and nothing else of it. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { describeConfig } from '../../src/setup/operations.ts';
import { type BucketKey, type BucketOptions, openBucket } from '../support/origins/s3-bucket.ts';
import { startRangeway } from '../support/processes/rangeway-process.ts';
import { configOf } from '../support/processes/reloaded-server.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';

const key: BucketKey = { id: 'AKIAEXAMPLE', secret: 'a/secret+key', token: 'a+token=' };
const film = patternBytes(0, 3_000_000);
const objects = {
  '/film.mp4': film,
  '/media/film.mp4': film,
  '/a+b (1)!.txt': Buffer.from('signs'),
  '/café.txt': Buffer.from('café'),
};

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-signing-'));
  vi.stubEnv('TEST_KEY_ID', key.id);
  await writeFile(join(dir, 'secret'), `${key.secret}\n`);
  await writeFile(join(dir, 'token'), `${key.token}\n`);
  await writeFile(join(dir, 'ca.pem'), testAuthority);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(dir, { recursive: true, force: true });
});

const signing = () => ({
  type: 'sigv4',
  region: 'eu-central-1',
  accessKeyId: 'env:TEST_KEY_ID',
  secretAccessKey: `file:${dir}/secret`,
  sessionToken: `file:${dir}/token`,
});

function configFor(url: string, origin: object = {}, route: object = {}): Config {
  const store = { type: 'memory' };
  const routes = [{ origin: { url, signing: signing(), ...origin }, ...route }];
  return configOf({ listen: '127.0.0.1:0', admin: 'off', store, routes } as never);
}

async function running(config: Config): Promise<{ url: string; server: RunningServer } & AsyncDisposable> {
  const server = await start(config);
  return { url: server.url, server, [Symbol.asyncDispose]: () => server.close({ graceMs: 0 }) };
}

const bucketOptions: BucketOptions = { keys: () => [key], region: 'eu-central-1', objects };

async function ask(url: string, fields: Record<string, string> = {}, method = 'GET') {
  const response = await fetch(url, { method, headers: fields });
  return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()), fields: response.headers };
}

describe.each([
  ['HTTP/1.1', false, '1.1'],
  ['HTTP/2', true, '2.0'],
] as const)('a private bucket over %s', (_name, isSecure, version) => {
  it('answers ranges, HEAD, conditions and odd names', async () => {
    await using bucket = await openBucket({ ...bucketOptions, isSecure });
    const tls = isSecure ? { protocol: 'http2', caFile: join(dir, 'ca.pem') } : {};
    await using proxy = await running(configFor(bucket.url, tls));

    const part = await ask(`${proxy.url}/film.mp4`, { range: 'bytes=1000000-1000009' });
    expect([part.status, part.bytes.equals(film.subarray(1_000_000, 1_000_010))]).toEqual([206, true]);
    const whole = await ask(`${proxy.url}/film.mp4`, { 'cache-control': 'no-cache' });
    expect([whole.status, whole.bytes.equals(film)]).toEqual([200, true]);
    expect((await ask(`${proxy.url}/film.mp4`, { 'cache-control': 'no-cache' })).bytes.equals(film)).toBe(true);
    expect((await ask(`${proxy.url}/media/film.mp4`, {}, 'HEAD')).status).toBe(200);
    for (const [path, text] of [
      ['/a+b%20(1)!.txt', 'signs'],
      ['/caf%C3%A9.txt', 'café'],
    ] as const) {
      const { status, bytes } = await ask(proxy.url + path);
      expect([path, status, bytes.toString()]).toEqual([path, 200, text]);
      // It has no lifetime, so the bucket is asked whether it has changed.
      const again = await ask(proxy.url + path);
      expect([path, again.status, again.bytes.toString()]).toEqual([path, 200, text]);
    }
    expect((await ask(`${proxy.url}/none`)).status).toBe(404);
    expect(bucket.requests.filter(({ verdict }) => verdict !== 'ok')).toEqual([]);
    const signedOnce = new Set(bucket.requests.flatMap(({ signedFields }) => signedFields));
    expect([...signedOnce]).toEqual(expect.arrayContaining(['host', 'range', 'if-none-match', 'x-amz-security-token']));
    expect(new Set(bucket.requests.map((request) => request.httpVersion))).toEqual(new Set([version]));
  });
});

describe('a signed origin', () => {
  it('gets no credentials, x-amz fields and parameters of clients', async () => {
    await using bucket = await openBucket(bucketOptions);
    const origin = { signing: { ...signing(), parameters: ['versionId'] } };
    const route = { fields: { toOrigin: { set: { 'x-amz-request-payer': 'requester' } } } };
    await using proxy = await running(configFor(bucket.url, origin, route));
    const query = 'list-type=2&response-content-type=text/html&versionId=7&X-Amz-Signature=0&X-Amz-Credential=theirs';
    const theirs = {
      authorization: 'AWS4-HMAC-SHA256 Credential=theirs',
      'x-amz-security-token': 'theirs',
      'x-amz-copy-source': '/other/secret',
      'x-amz-request-payer': 'theirs',
      x_amz_acl: 'theirs',
      'x-goog-user-project': 'theirs',
    };
    const { status, fields } = await ask(`${proxy.url}/film.mp4?${query}`, { ...theirs, range: 'bytes=0-9' });
    expect([status, fields.get('content-type')]).toEqual([206, 'video/mp4']);
    const [request] = bucket.requests;
    expect(request?.url).toBe('/film.mp4?versionId=7');
    expect(request?.headers['x-amz-request-payer']).toBe('requester');
    expect(JSON.stringify(request)).not.toContain('theirs');
    expect(JSON.stringify(request)).not.toContain('copy-source');
  });

  it('is asked once for clients with different credentials, which it does not get', async () => {
    await using bucket = await openBucket(bucketOptions);
    await using proxy = await running(configFor(bucket.url, {}, { cache: { defaultTtlSeconds: 60 } }));
    for (const authorization of ['Bearer one', 'Bearer two']) {
      const { status, bytes } = await ask(`${proxy.url}/caf%C3%A9.txt`, { authorization });
      expect([status, bytes.toString()]).toEqual([200, 'café']);
    }
    expect(bucket.requests.map(({ verdict }) => verdict)).toEqual(['ok']);
  });

  it('gets other methods without a signature', async () => {
    await using bucket = await openBucket(bucketOptions);
    await using proxy = await running(configFor(bucket.url));
    const { status } = await ask(`${proxy.url}/film.mp4?acl`, { authorization: 'theirs' }, 'DELETE');
    expect(status).toBe(403);
    const [request] = bucket.requests;
    expect(request).toMatchObject({ method: 'DELETE', url: '/film.mp4', verdict: 'AccessDenied', keyId: '' });
    expect(request?.headers['authorization']).toBeUndefined();
  });

  it('gets a new signature for its own host when a request is sent again', async () => {
    const failing = (failed: string): BucketOptions => ({
      ...bucketOptions,
      intervene(request, reply) {
        if (request.url !== failed) return false;
        reply.writeHead(503, { 'content-length': 0 }).end();
        return true;
      },
    });
    await using first = await openBucket(failing('/film.mp4'));
    await using second = await openBucket(bucketOptions);
    await using proxy = await running(configFor(first.url, { alternatives: [second.url] }));
    expect((await ask(`${proxy.url}/film.mp4`, { range: 'bytes=0-9' })).status).toBe(206);
    const hosts = [first, second].flatMap(({ requests }) =>
      requests.map(({ verdict, headers }) => [verdict, headers['host']]),
    );
    expect(hosts).toEqual([first, second].map(({ port }) => ['ok', `127.0.0.1:${port}`]));
  });

  it('gets a new signature when a transfer that broke off goes on', async () => {
    let cuts = 0;
    await using bucket = await openBucket({
      ...bucketOptions,
      intervene(_request, reply) {
        cuts += 1;
        if (cuts > 1) return false;
        reply.writeHead(200, { etag: '"v1"', 'content-length': film.length, 'accept-ranges': 'bytes' });
        reply.write(film.subarray(0, 1_000_000), () => reply.destroy());
        return true;
      },
    });
    await using proxy = await running(configFor(bucket.url, {}, { cache: { defaultTtlSeconds: 60 } }));
    await ask(`${proxy.url}/film.mp4`).catch(() => undefined);
    await expect.poll(() => bucket.requests.length).toBeGreaterThan(1);
    const [, resumed] = bucket.requests;
    expect(resumed).toMatchObject({
      verdict: 'ok',
      headers: { 'if-range': '"v1"', range: expect.stringMatching(/^bytes=\d{5,}-/) },
    });
    expect(resumed?.signedFields).toEqual(expect.arrayContaining(['if-range', 'range']));
  });

  it('is checked with signed requests, with the query of the check', async () => {
    await using bucket = await openBucket(bucketOptions);
    await using other = await openBucket(bucketOptions);
    const health = { check: { path: '/film.mp4?partNumber=1', intervalSeconds: 0.01 } };
    await using _proxy = await running(configFor(bucket.url, { alternatives: [other.url], health }));
    for (const { requests } of [bucket, other]) {
      await expect.poll(() => requests.length).toBeGreaterThan(0);
      expect(requests[0]).toMatchObject({ url: '/film.mp4?partNumber=1', verdict: 'ok', keyId: key.id });
    }
  });

  it('gets the signature of a new key after a reload', async () => {
    const next: BucketKey = { id: key.id, secret: 'another', token: 'next' };
    await using bucket = await openBucket({ ...bucketOptions, keys: () => [next] });
    await using proxy = await running(configFor(bucket.url));
    expect((await ask(`${proxy.url}/film.mp4`)).status).toBe(403);
    await writeFile(join(dir, 'secret'), next.secret);
    await writeFile(join(dir, 'token'), String(next.token));
    await proxy.server.reload();
    expect((await ask(`${proxy.url}/film.mp4`, { range: 'bytes=0-9' })).status).toBe(206);
  });
});

describe('the secrets of a signature', () => {
  it('are in no log, at any level, and not in the shown configuration', async () => {
    await using bucket = await openBucket(bucketOptions);
    const config = {
      listen: '127.0.0.1:0',
      log: { level: 'trace' },
      routes: [{ origin: { url: bucket.url, signing: signing() } }],
    };
    await writeFile(join(dir, 'config.json'), JSON.stringify({ ...config, store: { type: 'memory' } }));
    await using rangeway = startRangeway(['--config', join(dir, 'config.json')]);
    const [, url = ''] = await rangeway.waitFor(/ready on (http:\/\/127\.0\.0\.1:\d+)/);
    expect((await ask(`${url}/film.mp4`, { range: 'bytes=0-9' })).status).toBe(206);
    expect((await ask(`${url}/none`)).status).toBe(404);
    await bucket[Symbol.asyncDispose]();
    expect((await ask(`${url}/other`)).status).toBe(502);
    await rangeway.waitFor(/"\/other[^\n]*502|502[^\n]*\/other/);
    const shown = JSON.stringify(describeConfig(configFor(bucket.url)));
    for (const secret of [key.secret, String(key.token), 'AWS4-HMAC', 'Signature=']) {
      expect(rangeway.output() + shown).not.toContain(secret);
    }
    expect(shown).toContain('env:TEST_KEY_ID');
  });

  it.each<[what: string, write: () => Promise<void>, message: RegExp]>([
    ['is not set', async () => void vi.stubEnv('TEST_KEY_ID', undefined), /the secret env:TEST_KEY_ID is not set/],
    [
      'has a slash in its name',
      async () => void vi.stubEnv('TEST_KEY_ID', 'a/b'),
      /env:TEST_KEY_ID is no name of a key/,
    ],
    ['has two lines', () => writeFile(join(dir, 'secret'), 'a\nb'), /file:.*\/secret is no key/],
    ['is missing', () => rm(join(dir, 'token')), /file:.*\/token cannot be read/],
  ])('stop the start where one %s', async (_what, write, message) => {
    await write();
    await expect(start(configFor('http://127.0.0.1:1'))).rejects.toThrow(message);
  });
});

describe('origin.signing in a configuration', () => {
  const base = { type: 'sigv4', region: 'eu-central-1', accessKeyId: 'env:A', secretAccessKey: 'file:./secret' };
  const check = (signingOptions: object, route: object = {}) =>
    checkConfig({ routes: [{ origin: { url: 'http://o.test', signing: signingOptions }, ...route }] }, '/etc/rangeway');

  it('names files relative to the configuration, and S3 by default', () => {
    const checked = check(base);
    const [route] = checked.kind === 'ok' ? checked.config.routes : [];
    expect(route?.origin.signing).toEqual({
      ...base,
      service: 's3',
      accessKeyId: { kind: 'env', name: 'A' },
      secretAccessKey: { kind: 'file', name: '/etc/rangeway/secret' },
      sessionToken: undefined,
      parameters: [],
    });
  });

  it.each<[change: object, path: string, message: string]>([
    [{ type: 'sigv2' }, 'type', 'expected "sigv4"'],
    [{ region: 'eu/west' }, 'region', 'expected small letters'],
    [{ secretAccessKey: 'hunter2' }, 'secretAccessKey', 'expected "env:NAME"'],
    [{ parameters: ['X-Amz-Signature'] }, 'parameters[0]', 'carries credentials'],
    [{ parameters: ['a', 'a'] }, 'parameters[1]', 'is named twice'],
  ])('%j', (change, path, message) => {
    const checked = check({ ...base, ...change });
    const problems = checked.kind === 'invalid' ? checked.problems : [];
    expect(problems).toEqual([{ path: `routes[0].origin.signing.${path}`, message: expect.stringContaining(message) }]);
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });

  it.each(['set', 'add', 'setSecret'])('excludes fields of the signature in fields.toOrigin.%s', (option) => {
    const value = option === 'setSecret' ? 'env:A' : 'x';
    const checked = check(base, { fields: { toOrigin: { [option]: { 'X-Amz-Date': value } } } });
    const problems = checked.kind === 'invalid' ? checked.problems : [];
    expect(problems).toEqual([
      {
        path: `routes[0].fields.toOrigin.${option}.x-amz-date`,
        message: 'is a field of the signature that origin.signing makes',
      },
    ]);
  });
});
