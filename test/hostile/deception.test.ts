/**
 * Web cache deception: a victim opens a URL that looks like a file and gets its private page; then the attacker requests the
 * same URL. Whether the attacker gets the page depends on the origin's response fields only, not on the look of the URL.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Asked,
  openSharedGround,
  requestOf,
  type Said,
  type SharedGround,
} from '../support/proxies/shared-ground.ts';

/** Response fields of a private page, and whether other clients may then get it. */
const policies: Readonly<Record<string, { fields: Said['fields']; isShared: boolean }>> = {
  private: { fields: { 'cache-control': 'private, max-age=60' }, isShared: false },
  'no-store': { fields: { 'cache-control': 'no-store' }, isShared: false },
  'no-cache': { fields: { 'cache-control': 'no-cache' }, isShared: false },
  'no-cache and an entity tag': { fields: { 'cache-control': 'no-cache', etag: '"1"' }, isShared: false },
  'max-age=0': { fields: { 'cache-control': 'max-age=0' }, isShared: false },
  'Pragma and Expires': { fields: { pragma: 'no-cache', expires: '0' }, isShared: false },
  'Vary: Cookie': { fields: { 'cache-control': 'max-age=60', vary: 'Cookie' }, isShared: false },
  'Vary: *': { fields: { 'cache-control': 'max-age=60', vary: '*' }, isShared: false },
  'Set-Cookie alone': { fields: { 'set-cookie': 'session=1' }, isShared: false },
  'Set-Cookie and Last-Modified': {
    fields: { 'set-cookie': 'session=1', 'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT' },
    isShared: false,
  },
  'no caching fields': { fields: {}, isShared: false },
  'an entity tag alone': { fields: { etag: '"1"' }, isShared: false },
  // RFC 9111 §4.2.2: a page with a date has a heuristic lifetime, but only for requests with the victim's identity.
  'Last-Modified alone': { fields: { 'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT' }, isShared: false },
  'Last-Modified and an entity tag': {
    fields: { 'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT', etag: '"1"' },
    isShared: false,
  },
  // The origin permits sharing.
  'max-age=60': { fields: { 'cache-control': 'max-age=60' }, isShared: true },
};

/** URLs that look like a file, for which an origin sends the page. */
const disguises = [
  '/account/x.css',
  '/account.css',
  '/account;x.css',
  '/account;jsessionid=1/x.js',
  '/account%2Fx.css',
  '/account%5Cx.css',
  '/account%00.css',
  '/account%0Ax.css',
  '/account%3Fx.css',
  '/account%23x.css',
  '/account%3Bx.css',
  '/account%20.css',
  '/account/.css',
  '/account//x.css',
  '/account?x.css',
  '/account/favicon.ico',
  '/account/robots.txt',
  '/account/%2e%2e/static/x.css',
  '/static/../account',
  '/static/%2e%2e/account',
  '/./account/x.css',
  '/ACCOUNT/x.css',
  '/account/x.css?cb=1',
];

/** Returns the page of the user whom the request identifies. */
const pageOf = ({ field, target }: Asked): string => {
  const user = field('authorization') ?? field('cookie') ?? 'nobody';
  return `the page of ${user} at ${target.length}`;
};

let ground: SharedGround;
beforeAll(async () => {
  ground = await openSharedGround((asked) => {
    const saying = Number(/[?&]saying=(\d+)/.exec(asked.target)?.[1]);
    const isCurrent = asked.field('if-none-match') === '"1"' && asked.field('cookie') === 'session=victim';
    const fields = Object.values(policies)[saying]?.fields ?? {};
    return isCurrent ? { status: 304, fields } : { fields, body: pageOf(asked) };
  });
});
afterAll(() => ground[Symbol.asyncDispose]());

const victimCredentials = ['Cookie: session=victim', 'Authorization: Basic dmljdGltOng='];

describe.each(Object.entries(policies).map(([name, saying], at) => ({ name, at, ...saying })))(
  'an origin that answers with $name',
  ({ at, isShared }) => {
    it.each(disguises)('%s', async (disguise) => {
      for (const own of victimCredentials) {
        // RFC 9111 §3.5: a response to a request with Authorization is not shared without permission.
        const isLeaked = isShared && own.startsWith('Cookie');
        const mark = `saying=${at}&${own.slice(0, 3)}&${disguises.indexOf(disguise)}`;
        const target = disguise.includes('?') ? `${disguise}&${mark}` : `${disguise}?${mark}`;
        const victim = await ground.send(requestOf(`GET ${target}`, own));
        expect(victim.body).toContain('the page of');
        expect(victim.body).not.toContain('nobody');
        const attacks = [
          requestOf(`GET ${target}`),
          requestOf(`GET ${target}`, 'Range: bytes=0-'),
          requestOf(`GET ${target}`, 'Range: bytes=12-40'),
          requestOf(`GET ${target}`, 'Cookie: session=attacker'),
          requestOf(`GET ${target}`, 'Cache-Control: max-stale'),
          requestOf(`GET ${target}`, 'Cache-Control: only-if-cached, max-stale'),
          requestOf(`GET ${target}`, 'If-None-Match: "1"'),
        ];
        for (const attack of attacks) {
          const { body } = await ground.send(attack);
          if (!isLeaked) expect(body, attack).not.toMatch(/victim|dmljdGlt/);
        }
        if (isLeaked) expect((await ground.send(attacks[0] ?? '')).body).toContain('victim');
      }
    });
  },
);

describe('a route whose files have a configured lifetime', () => {
  const routes = [{}, { match: { pathPrefix: '/static' }, cache: { defaultTtlSeconds: 60 } }];
  /** Decodes the whole path and removes matrix parameters before it resolves dot segments, as some origins do. */
  const careless = (asked: Asked): Said => {
    const path = decodeURIComponent(asked.target)
      .replaceAll('\\', '/')
      .replaceAll(/;[^/]*/g, '');
    const { pathname } = new URL(path, 'http://origin.test');
    return { body: pathname.startsWith('/account') ? pageOf(asked) : 'a file' };
  };

  it.each([
    ['/static/../account', 'refused'],
    ['/static/%2e%2e/account', 'refused'],
    ['/static/%2E./account', 'refused'],
    ['/static/x/../../account', 'refused'],
    ['/static%2F..%2Faccount', 'refused'],
    ['/static/..%2Faccount', 'refused'],
    ['/static/..%2faccount', 'refused'],
    ['/static/%2e%2e%2faccount', 'refused'],
    ['/static/x%2F..%2F..%2Faccount', 'refused'],
    ['/static/..%5Caccount', 'refused'],
    ['/static\\..\\account', 'refused'],
    ['/static/..\\account', 'refused'],
    ['/static/..;/account', 'refused'],
    ['/static/..;x=1/account', 'refused'],
    ['/static/%2e%2e;/account', 'refused'],
    ['/static/x/..;/..;/account', 'refused'],
    ['/static/%5C..%5C..%5Caccount', 'refused'],
  ])('%s is %s, and no client gets the page of another client', async (target, want) => {
    await using own = await openSharedGround(careless, routes);
    const victim = await own.send(requestOf(`GET ${target}`, 'Cookie: session=victim'));
    expect(victim.status).toBe(want === 'refused' ? 400 : 200);
    if (want === 'refused') expect(own.asked).toEqual([]);
    for (const range of [[], ['Range: bytes=0-']]) {
      expect((await own.send(requestOf(`GET ${target}`, ...range))).body).not.toContain('victim');
    }
  });

  it('stores files whose names have dots and encoded slashes', async () => {
    await using own = await openSharedGround(() => ({ body: 'a file' }), routes);
    for (const path of [
      '/static/a..b',
      '/static/..a',
      '/static/a%2Fb',
      '/static/...',
      '/static/a;b',
      '/static/x?..%2F',
    ]) {
      expect((await own.send(requestOf(`GET ${path}`))).status, path).toBe(200);
      expect(await own.send(requestOf(`GET ${path}`)), path).toMatchObject({ body: 'a file', isHit: true });
    }
  });
});
