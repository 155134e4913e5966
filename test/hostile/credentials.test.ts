/** A route with credentials, and clients without: whatever they send, they learn nothing and change nothing. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CredentialRules, createAccess } from '../../src/guard/access/access.ts';
import { createCors, createPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate, type Gate } from '../../src/guard/gate.ts';
import { redact } from '../../src/telemetry/redact.ts';
import { base64, createRules, now, signed } from '../support/proxies/credential-ground.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 5000;
const allKinds = ['basic', 'bearer', 'apiKey', 'signedUrls'] as const;
const apiKey = { 'x-api-key': 'key-of-the-app-01' };
const authority = 'media.example';

/** A page that may read the responses of the route. */
const page = 'https://app.example';

function gateOf(credentials: CredentialRules): Gate {
  return createGate({
    access: createAccess({ allow: undefined, deny: undefined, credentials }),
    allowances: boundlessAllowances,
    presentation: createPresentation({
      cors: createCors({
        origins: [page],
        credentials: false,
        methods: ['GET', 'HEAD'],
        requestFields: ['authorization'],
        exposeFields: [],
        maxAgeSeconds: 60,
      }),
      security: undefined,
      change: undefined,
    }),
  });
}

let proxy: WholeProxy;

beforeEach(() => {
  proxy = createWholeProxy({ gate: gateOf(createRules(allKinds).rules) });
});
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

/** Stores a response that the origin calls public. */
async function store(sent: Sent = { fields: apiKey }): Promise<void> {
  const client = proxy.send({ authority, ...sent });
  const exchange = await proxy.origin.next();
  exchange.respond(
    {
      fields: {
        'content-length': String(size),
        'cache-control': 'public, max-age=3600, s-maxage=7200',
        'cdn-cache-control': 'max-age=7200',
        etag: '"v1"',
        'last-modified': 'Mon, 01 Dec 2025 00:00:00 GMT',
        'x-from-origin': '1',
      },
    },
    patternBytes(0, size),
  );
  await expectWhole(client, { sizeBytes: size });
  await proxy.fillsEnded(1);
}

/** The fields that a refusal may have. None of them comes from the origin or the store. */
const innocent = new Set([
  'cache-control',
  'content-type',
  'proxy-status',
  'vary',
  'www-authenticate',
  'x-content-type-options',
]);

async function expectRefusal(sent: Sent, status: number): Promise<void> {
  const { requests } = proxy.origin;
  const client = proxy.send({ authority, ...sent });
  const response = await client.response;
  expect(response.status).toBe(status);
  expect(response.fields.map(([name]) => name).filter((name) => !innocent.has(name))).toEqual([]);
  expect(await client.field('cache-control')).toBe('private, no-store');
  expect(Buffer.from(await client.bytes()).toString()).not.toMatch(/v1|5000|origin/);
  expect(proxy.origin.requests).toBe(requests);
  if (status === 401) expect(await client.field('www-authenticate')).toContain('Basic realm="Films"');
}

const attempts: readonly [what: string, sent: Sent, status: number][] = [
  ['nothing', {}, 401],
  ['HEAD', { method: 'HEAD' }, 401],
  ['HTTP/1.0', { version: '1.0' }, 401],
  ['a range', { fields: { range: 'bytes=0-99' } }, 401],
  ['many ranges', { fields: { range: 'bytes=0-0,2-2,4-4' } }, 401],
  ['a range beyond the end', { fields: { range: 'bytes=5000-' } }, 401],
  ['HEAD with a range', { method: 'HEAD', fields: { range: 'bytes=0-99' } }, 401],
  ['If-None-Match that holds', { fields: { 'if-none-match': '"v1"' } }, 401],
  ['If-None-Match of any', { fields: { 'if-none-match': '*' } }, 401],
  ['If-Match that fails', { fields: { 'if-match': '"v2"' } }, 401],
  ['If-Match that holds', { fields: { 'if-match': '"v1"' } }, 401],
  ['If-Modified-Since', { fields: { 'if-modified-since': 'Mon, 01 Dec 2025 00:00:00 GMT' } }, 401],
  ['If-Unmodified-Since', { fields: { 'if-unmodified-since': 'Mon, 01 Dec 2024 00:00:00 GMT' } }, 401],
  ['If-Range that holds', { fields: { range: 'bytes=0-0', 'if-range': '"v1"' } }, 401],
  ['only-if-cached', { fields: { 'cache-control': 'only-if-cached' } }, 401],
  ['no-cache', { fields: { 'cache-control': 'no-cache' } }, 401],
  ['max-stale', { fields: { 'cache-control': 'max-stale' } }, 401],
  ['POST', { method: 'POST' }, 401],
  ['PUT', { method: 'PUT' }, 401],
  ['DELETE', { method: 'DELETE' }, 401],
  ['PURGE', { method: 'PURGE' }, 401],
  ['OPTIONS', { method: 'OPTIONS' }, 401],
  ['OPTIONS of a page', { method: 'OPTIONS', fields: { origin: 'https://evil.example' } }, 401],
  ['another method in a field', { fields: { 'x-http-method-override': 'OPTIONS' } }, 401],
  ['another URL in a field', { target: '/open', fields: { 'x-original-url': '/file' } }, 401],
  ['a path with a dot segment', { target: '/x/%2e%2e/file' }, 401],
  ['an encoded path', { target: '/%66ile' }, 401],
  ['a name in a query', { target: '/file?user=ada&password=love' }, 401],
  ['credentials in a cookie', { fields: { cookie: `authorization=Basic ${base64('ada:love')}` } }, 401],
  ['credentials for a proxy', { fields: { 'proxy-authorization': `Basic ${base64('ada:love')}` } }, 401],
  ['a wrong password', { fields: { authorization: `Basic ${base64('ada:hate')}` } }, 401],
  ['a wrong token', { fields: { authorization: 'Bearer token-of-robot-02' } }, 401],
  ['a wrong key', { fields: { 'x-api-key': 'key-of-the-app-02' } }, 401],
  [
    'a wrong password and a condition that holds',
    { fields: { authorization: 'Basic x', 'if-none-match': '"v1"' } },
    401,
  ],
  ['two credentials in one', { fields: { authorization: `Basic x, Basic ${base64('ada:love')}` } }, 401],
  ['very long credentials', { fields: { authorization: `Basic ${'A'.repeat(20_000)}` } }, 401],
  ['a very long key', { fields: { 'x-api-key': 'A'.repeat(20_000) } }, 401],
  ['a key named by Connection', { fields: { connection: 'x-api-key', 'x-api-key': 'key' } }, 401],
  [
    'a trusted address that is claimed',
    { fields: { 'x-forwarded-for': '127.0.0.1', forwarded: 'for=127.0.0.1' } },
    401,
  ],
  [
    'the user of another gateway',
    { fields: { 'x-remote-user': 'ada', remote_user: 'ada', 'x-forwarded-user': 'ada' } },
    401,
  ],
  ['a signature of another path', { target: signed('/other').replace('/other', '/file') }, 403],
  ['a signature of another host', { target: signed('/file', { authority: 'files.example' }) }, 403],
  ['a signature that has expired', { target: signed('/file', { expires: now / 1000 }) }, 403],
  ['a signature for POST', { method: 'POST', target: signed('/file') }, 403],
  ['a signature, and a dot segment behind its path', { target: signed('/a/').replace('/a/', '/a/../file') }, 403],
];

describe('a client without credentials', () => {
  // By default a listener refuses such large fields. Here the guard gets them.
  it.each(attempts)('learns nothing by %s', async (_what, sent, status) => {
    await store();
    await expectRefusal(sent, status);
  });

  it('changes nothing by all of these requests', async () => {
    await store();
    for (const [, sent] of attempts) await (await proxy.send({ authority, ...sent }).response).status;
    const client = proxy.send({ authority, fields: apiKey });
    await expectWhole(client, { sizeBytes: size });
    expect(await client.field('cache-status')).toMatch(/^rangeway; hit/);
    expect(proxy.origin.requests).toBe(1);
  });

  it('learns nothing of a running transfer', async () => {
    const first = proxy.send({ authority, fields: apiKey });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'content-length': String(size), 'cache-control': 'max-age=60', etag: '"v1"' } });
    await exchange.send(patternBytes(0, 100));
    await expectRefusal({}, 401);
    await expectRefusal({ fields: { range: 'bytes=0-9' } }, 401);
    void exchange.send(patternBytes(100, size));
    exchange.end();
    await expectWhole(first, { sizeBytes: size });
  });

  it('gets no explanation by `explain`, but the refusal', async () => {
    await store();
    await expect(proxy.explain({ authority })).rejects.toThrow('no explanation, but 401');
    const explanation = await proxy.explain({ authority, target: signed('/file') });
    expect(explanation).toMatchObject({ method: 'GET', uri: `http://${authority}/file` });
    expect(JSON.stringify(explanation)).not.toContain('rw-');
  });

  it('leaves no refusal in the store', async () => {
    await expectRefusal({}, 401);
    await store();
    const client = proxy.send({ authority, fields: apiKey });
    expect([await client.status(), proxy.origin.requests]).toEqual([200, 1]);
    await client.bytes();
  });
});

describe('a preflight request', () => {
  const preflight = {
    origin: page,
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization',
  };

  it('needs no credentials, and reveals nothing of the store', async () => {
    await store();
    const answers = await Promise.all(
      ['/file', '/none'].map(async (target) => {
        const response = await proxy.send({ authority, method: 'OPTIONS', target, fields: preflight }).response;
        return { status: response.status, fields: response.fields, kind: response.body.kind };
      }),
    );
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]).toMatchObject({ status: 204, kind: 'none' });
    expect(JSON.stringify(answers[0])).toContain('access-control-allow-origin');
    expect(proxy.origin.requests).toBe(1);
  });

  it('lets its page read the refusal that follows', async () => {
    const client = proxy.send({ authority, fields: { origin: page } });
    expect([await client.status(), await client.field('access-control-allow-origin')]).toEqual([401, page]);
    await client.bytes();
  });
});

describe('a client with credentials', () => {
  const ways: readonly [name: string, sent: Sent][] = [
    ['ada', { fields: { authorization: `Basic ${base64('ada:love')}` } }],
    ['robot', { fields: { authorization: 'Bearer token-of-robot-01' } }],
    ['app', { fields: apiKey }],
    ['k1', { target: signed('/file') }],
  ];

  // A 304 ends for a listener only, so it is no request event here.
  const conditions: readonly [fields: Record<string, string>, status: number][] = [
    [{}, 200],
    [{ range: 'bytes=0-9' }, 206],
    [{ 'if-none-match': '"v1"' }, 304],
  ];

  it.each(ways)('gets a response that another client has stored, and is logged as %s', async (name, sent) => {
    await store();
    for (const [more, status] of conditions) {
      const client = proxy.send({ authority, ...sent, fields: { ...sent.fields, ...more } });
      expect(await client.status()).toBe(status);
      expect(await client.field('cache-status')).toMatch(/^rangeway; hit/);
      expect(await client.field('cache-control')).toBe('private, max-age=3600');
      expect(await client.field('cdn-cache-control')).toBeUndefined();
      await client.bytes();
    }
    expect(proxy.requestEvents().map(({ user }) => user)).toEqual(['app', name, name]);
    expect(proxy.origin.requests).toBe(1);
  });

  it.each(ways)('stores a response for other clients with its credentials, here %s', async (_name, sent) => {
    await store(sent);
    expect(proxy.origin.requests).toBe(1);
    for (const [, other] of ways) {
      const client = proxy.send({ authority, ...other });
      expect(await client.field('cache-status')).toMatch(/^rangeway; hit/);
      await client.bytes();
    }
  });

  it('does not show its credentials to the origin', async () => {
    for (const [, sent] of ways) {
      const target = (sent.target ?? '/file?').replace('/file', `/${proxy.origin.requests}`);
      const client = proxy.send({
        authority,
        ...sent,
        target: sent.target === undefined ? target : signed(`/${proxy.origin.requests}`),
      });
      const exchange = await proxy.origin.next();
      const seen = JSON.stringify(exchange.request);
      expect(seen).not.toMatch(/authorization|x-api-key|rw-|token-of|key-of|Basic/);
      exchange.respond({ fields: { 'content-length': '0' } }, new Uint8Array());
      await client.bytes();
    }
  });

  it('has no credentials in the log', async () => {
    await store({ target: signed('/file') });
    for (const [, sent] of ways) await proxy.send({ authority, ...sent }).bytes();
    for (const [, sent] of attempts) await proxy.send({ authority, ...sent }).bytes();
    const texts = proxy.events.flatMap((event) => Object.values(event).map((value) => redact(String(value))));
    const signature = signed('/file').slice(-43);
    expect(texts.some((text) => text.includes('rw-signature=[redacted]'))).toBe(true);
    expect(texts.join('\n')).not.toMatch(new RegExp(`${signature}|token-of|key-of|love|hate|${base64('ada:')}`));
  });
});
