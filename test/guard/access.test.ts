/** Access by address, and the fields that keep other caches from sharing responses that need credentials. */

import { describe, expect, it } from 'vitest';
import { parseAddressRange } from '../../src/config/address.ts';
import { createAccess, withPrivate } from '../../src/guard/access/access.ts';
import { createPeerList, type PeerRange } from '../../src/guard/client.ts';
import type { ProxyResponse } from '../../src/http/message.ts';
import type { ProxyError } from '../../src/http/proxy-error.ts';
import { createRules, requestWith, routedOf } from '../support/proxies/credential-ground.ts';
import { openAccess } from '../support/proxies/open-gate.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const listOf = (texts: readonly string[] | undefined) =>
  texts === undefined ? undefined : createPeerList(texts.map((text) => parseAddressRange(text) as PeerRange));

describe('an address', () => {
  it.each<
    [address: string, allow: readonly string[] | undefined, deny: readonly string[] | undefined, passes: boolean]
  >([
    ['192.0.2.7', undefined, undefined, true],
    ['192.0.2.7', ['192.0.2.7'], undefined, true],
    ['192.0.2.7', ['192.0.2.0/24'], undefined, true],
    ['192.0.2.7', ['0.0.0.0/0'], undefined, true],
    ['192.0.2.7', ['::/0'], undefined, false],
    ['192.0.2.7', ['192.0.3.0/24'], undefined, false],
    ['192.0.2.7', ['192.0.2.8'], undefined, false],
    ['192.0.2.7', undefined, ['192.0.2.7'], false],
    ['192.0.2.7', undefined, ['192.0.2.0/24'], false],
    ['192.0.2.7', undefined, ['192.0.2.8'], true],
    ['192.0.2.7', undefined, ['::/0'], true],
    // Deny prevails over allow, however specific either is.
    ['192.0.2.7', ['192.0.2.7'], ['192.0.2.0/24'], false],
    ['192.0.2.7', ['192.0.2.0/24'], ['192.0.2.7'], false],
    ['192.0.2.8', ['192.0.2.0/24'], ['192.0.2.7'], true],
    ['::ffff:192.0.2.7', ['192.0.2.7'], undefined, true],
    ['::ffff:192.0.2.7', undefined, ['192.0.2.7'], false],
    ['2001:db8::7', ['2001:db8::/32'], undefined, true],
    ['2001:DB8:0:0::7', ['2001:db8::7'], undefined, true],
    ['2001:db9::7', ['2001:db8::/32'], undefined, false],
    ['2001:db8::7', undefined, ['2001:db8::/32'], false],
    ['2001:db8::7', ['0.0.0.0/0'], undefined, false],
    ['fe80::1%eth0', ['fe80::/10'], undefined, true],
    ['fe80::1%eth0', undefined, ['fe80::/10'], false],
    // The address is unknown, as that of a Unix socket's peer.
    ['', undefined, undefined, true],
    ['', undefined, ['0.0.0.0/0', '::/0'], true],
    ['', ['0.0.0.0/0', '::/0'], undefined, false],
    ['unknown', ['0.0.0.0/0', '::/0'], undefined, false],
    ['unknown', undefined, ['0.0.0.0/0'], true],
  ])('%j with allow %j and deny %j passes: %s', (address, allow, deny, passes) => {
    const access = createAccess({ allow: listOf(allow), deny: listOf(deny), credentials: undefined });
    const check = () => access.checkAddress({ address, forwardedFor: ['192.0.2.7'] });
    if (passes) expect(check).not.toThrow();
    else
      expect(check).toThrow(
        expect.objectContaining({ code: 'client_forbidden', status: 403, fields: [] }) as ProxyError,
      );
  });
});

function withCacheControl(...lines: readonly string[]): ProxyResponse {
  return { status: 200, fields: fieldsOf('ETag: "1"', ...lines), body: { kind: 'none' } };
}

describe('a response', () => {
  const fromOrigin = withCacheControl('Cache-Control: public, s-maxage=60');

  it('is unchanged on a route without credentials', () => {
    const access = createAccess({ allow: listOf(['192.0.2.7']), deny: undefined, credentials: undefined });
    expect(access.present(fromOrigin)).toBe(fromOrigin);
    expect(openAccess.present(fromOrigin)).toBe(fromOrigin);
    const request = requestWith(['Authorization: Basic x', 'Authorization: x'], '/film?rw-key=1');
    const passed = openAccess.checkCredentials(request, routedOf(request), { address: '', forwardedFor: [] });
    expect(passed).toEqual({ request, routed: routedOf(request), user: undefined });
  });

  it.each([['basic'], ['bearer'], ['apiKey'], ['signedUrls']] as const)(
    'is private on a route that requires %s',
    (kind) => {
      const access = createAccess({ allow: undefined, deny: undefined, credentials: createRules([kind]).rules });
      expect(access.present(fromOrigin).fields).toContainEqual(['cache-control', 'private']);
    },
  );

  it.each<[lines: readonly string[], want: string]>([
    [[], 'private'],
    [['Cache-Control:'], 'private'],
    [['Cache-Control: max-age=60'], 'private, max-age=60'],
    [['Cache-Control: public, max-age=60'], 'private, max-age=60'],
    [['Cache-Control: PUBLIC ,Max-Age=60'], 'private, Max-Age=60'],
    [['Cache-Control: s-maxage=60, max-age=5'], 'private, max-age=5'],
    [['Cache-Control: s-maxage="60", max-age=5'], 'private, max-age=5'],
    [['Cache-Control: S-MaxAge = 60'], 'private'],
    [['Cache-Control: public=1'], 'private'],
    [['Cache-Control: private, max-age=5'], 'private, max-age=5'],
    [['Cache-Control: private="set-cookie", max-age=5'], 'private, max-age=5'],
    [['Cache-Control: private="a, public", max-age=5'], 'private, max-age=5'],
    [['Cache-Control: no-cache="a, public"'], 'private, no-cache="a, public"'],
    [['Cache-Control: no-store'], 'private, no-store'],
    [['Cache-Control: must-understand, no-store, public'], 'private, must-understand, no-store'],
    [['Cache-Control: must-revalidate, max-age=0'], 'private, must-revalidate, max-age=0'],
    [
      ['Cache-Control: public', 'Cache-Control: max-age=60', 'Cache-Control: immutable'],
      'private, max-age=60, immutable',
    ],
    [['Cache-Control: foo="bar', 'Cache-Control: public'], 'private, foo="bar'],
    [['Cache-Control: x-public, publicity, s-maxages=1'], 'private, x-public, publicity, s-maxages=1'],
  ])('with %j becomes %s', (lines, want) => {
    expect(withPrivate(withCacheControl(...lines)).fields).toEqual(fieldsOf('ETag: "1"', `Cache-Control: ${want}`));
  });

  it('has no targeted fields for other caches (RFC 9213)', () => {
    const targeted = [
      'CDN-Cache-Control',
      'Rangeway-Cache-Control',
      'Cloudflare-CDN-Cache-Control',
      'Surrogate-Control',
      'X-Accel-Expires',
      'Edge-Control',
    ];
    const response = withCacheControl(...targeted.map((name) => `${name}: max-age=60`), 'Expires: 0', 'Vary: A');
    expect(withPrivate(response).fields).toEqual(
      fieldsOf('ETag: "1"', 'Expires: 0', 'Vary: A', 'Cache-Control: private'),
    );
  });

  it('is made in linear time for a long run of white space', () => {
    const { fields } = withPrivate(withCacheControl(`Cache-Control: a${' '.repeat(100_000)}b`));
    expect(fields.at(-1)?.[1]).toMatch(/^private, a +b$/);
  }, 1000);

  it('keeps its status, body and other properties', () => {
    const body = { kind: 'bytes', sizeBytes: 1, chunks: [Buffer.from('a')] } as const;
    const response: ProxyResponse = { status: 206, fields: [], body, closeConnection: true };
    expect(withPrivate(response)).toEqual({ ...response, fields: [['cache-control', 'private']] });
  });
});
