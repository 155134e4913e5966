/** Keys and bypasses that the operator configures, as clients and the origin see them. */

import { afterEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import type { RouteCaching } from '../../src/routing/router.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const body = patternBytes(0, 3000);
const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let proxy: WholeProxy;
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

const keyWith = (key: Partial<RouteCaching['key']>) => ({ key: { ...defaultCaching.key, ...key } });
const bypassBy = (bypass: Partial<RouteCaching['bypass']>) => ({ bypass: { ...defaultCaching.bypass, ...bypass } });

function start(cache: Partial<RouteCaching>): void {
  proxy = createWholeProxy({ route: { cache } });
}

/** Sends a request that the origin answers. Returns its Cache-Status, and the origin request. */
async function miss(sent: Sent, fields: Record<string, string> = fresh) {
  const fillsBefore = proxy.fillEvents().length;
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  exchange.respond({ fields }, body);
  await client.bytes();
  const status = (await client.field('cache-status')) ?? '';
  if (status.includes('; stored')) await proxy.fillsEnded(fillsBefore + 1);
  return { status, request: exchange.request };
}

/** Sends a request that must be answered without the origin. */
async function hit(sent: Sent): Promise<void> {
  const client = proxy.send(sent);
  expect(await client.bytes()).toEqual(Buffer.from(body));
  expect(await client.field('cache-status')).toMatch(/^rangeway; hit/);
}

const get = (target: string, fields: Record<string, string> = {}): Sent => ({ target, fields });

describe('query parameters that are not in the key', () => {
  it('do not separate responses, and are sent to the origin', async () => {
    start(keyWith({ query: { ignore: ['utm_*'] } }));
    const { request } = await miss(get('/f?utm_x=1&a=1'));
    expect(request.target).toBe('/f?utm_x=1&a=1');
    await hit(get('/f?a=1&utm_x=2'));
    await hit(get('/f?a=1'));
    expect((await miss(get('/f?a=2'))).status).toContain('fwd=uri-miss');
  });

  it('do not keep an unsafe method from invalidating (RFC 9111 §4.4)', async () => {
    start(keyWith({ query: { ignore: ['utm_*'] } }));
    await miss(get('/f?a=1'));
    await miss({ method: 'POST', target: '/f?utm_x=1&a=1' }, {});
    await miss(get('/f?a=1'));
  });
});

describe('fields and cookies in the key', () => {
  it('separate responses, and each is reused for its own values', async () => {
    start(keyWith({ fields: ['x-device'], cookies: ['lang'] }));
    const variants = [
      {},
      { 'x-device': 'tv' },
      { 'x-device': '' },
      { cookie: 'lang=de' },
      { cookie: 'lang=' },
      { cookie: 'lang=en', 'x-device': 'tv' },
    ];
    for (const fields of variants) await miss(get('/f', fields));
    for (const fields of variants) await hit(get('/f', fields));
    await hit(get('/f', { cookie: 'other=1; lang=de', 'x-other': '1' }));
  });

  it('separate responses while they arrive', async () => {
    start(keyWith({ cookies: ['lang'] }));
    const german = proxy.send(get('/f', { cookie: 'lang=de' }));
    const english = proxy.send(get('/f', { cookie: 'lang=en' }));
    const answered = [];
    for (let count = 0; count < 2; count += 1) {
      const exchange = await proxy.origin.next();
      const cookie = fieldValue(exchange.request.fields, 'cookie') ?? '';
      answered.push(cookie);
      exchange.respond({ fields: { ...fresh, 'x-for': cookie } }, body);
    }
    expect(answered.toSorted()).toEqual(['lang=de', 'lang=en']);
    expect(await german.field('x-for')).toBe('lang=de');
    expect(await english.field('x-for')).toBe('lang=en');
    await Promise.all([german.bytes(), english.bytes()]);
  });

  it('do not keep an unsafe method from invalidating (RFC 9111 §4.4)', async () => {
    start(keyWith({ cookies: ['lang'] }));
    await miss(get('/f', { cookie: 'lang=de' }));
    await miss(get('/f', { cookie: 'lang=en' }));
    await miss({ method: 'PUT', target: '/f', fields: { cookie: 'lang=en' } }, {});
    await miss(get('/f', { cookie: 'lang=de' }));
    await miss(get('/f', { cookie: 'lang=en' }));
  });

  it('leave Vary in force', async () => {
    start(keyWith({ cookies: ['lang'] }));
    await miss(get('/f', { cookie: 'lang=de', 'x-a': '1' }), { ...fresh, vary: 'X-A' });
    expect((await miss(get('/f', { cookie: 'lang=de', 'x-a': '2' }))).status).toContain('fwd=vary-miss');
    await hit(get('/f', { cookie: 'lang=de', 'x-a': '1' }));
  });

  it('are not guessed for an entry that was stored under another key', async () => {
    start({});
    await miss(get('/f', { cookie: 'lang=de' }));
    const { store } = proxy;
    await proxy.closeCache();
    proxy = createWholeProxy({ createStore: () => store, route: { cache: keyWith({ cookies: ['lang'] }) } });
    expect((await miss(get('/f', { cookie: 'lang=de' }))).status).toContain('fwd=vary-miss');
  });
});

describe('Accept-Encoding', () => {
  it('reaches the origin and Vary with few values where it is normalised', async () => {
    start({ acceptEncoding: 'normalise' });
    const vary = { ...fresh, vary: 'Accept-Encoding' };
    const { request } = await miss(get('/f', { 'accept-encoding': 'gzip, deflate, br;q=0.9' }), vary);
    expect(fieldValue(request.fields, 'accept-encoding')).toBe('br, gzip');
    await hit(get('/f', { 'accept-encoding': 'br,gzip,foo' }));
    await miss(get('/f'), vary);
    await hit(get('/f', { 'accept-encoding': 'identity' }));
  });

  it('asks for no coding with "identity", so that all clients, HEAD and ranges share one representation', async () => {
    start({ acceptEncoding: 'identity' });
    const vary = { ...fresh, vary: 'Accept-Encoding' };
    const { request } = await miss(get('/f', { 'accept-encoding': 'gzip' }), vary);
    expect(fieldValue(request.fields, 'accept-encoding')).toBe('identity');
    await hit(get('/f', { 'accept-encoding': 'br' }));
    await hit(get('/f'));
    const head = proxy.send({ ...get('/f', { 'accept-encoding': 'gzip' }), method: 'HEAD' });
    expect((await head.response).body).toMatchObject({ sizeBytes: 3000 });
  });
});

describe('a bypass', () => {
  it.each<[bypass: Partial<RouteCaching['bypass']>, sent: Sent]>([
    [{ fields: ['authorization'] }, get('/f', { authorization: 'x' })],
    [{ cookies: ['session_*'] }, get('/f', { cookie: 'a=1; session_7=x' })],
    [{ queryParameters: ['preview'] }, get('/f?preview=1')],
  ])('by %j passes the request on, and stores nothing', async (bypass, sent) => {
    start(bypassBy(bypass));
    const open = { ...fresh, 'cache-control': 'public, max-age=100' };
    await miss(get('/f'), open);
    expect((await miss(sent, open)).status).toContain('fwd=bypass');
    expect((await miss(sent, open)).status).toContain('fwd=bypass');
    await hit(get('/f'));
  });

  it('stores no response to POST either', async () => {
    start(bypassBy({ fields: ['x-draft'] }));
    const answer = { ...fresh, 'content-location': '/f' };
    await miss({ method: 'POST', target: '/f', fields: { 'x-draft': '1' } }, answer);
    await miss(get('/f'));
  });
});

describe('Surrogate-Control', () => {
  it('is announced to the origin where it is read', async () => {
    start({ targetedFields: ['surrogate-control'] });
    const fields = { 'surrogate-capability': 'evil="ESI/1.0"' };
    const { request } = await miss(get('/f', fields), { 'surrogate-control': 'max-age=100' });
    expect(fieldValue(request.fields, 'surrogate-capability')).toBe('rangeway="Surrogate/1.0"');
    await hit(get('/f'));
  });
});
