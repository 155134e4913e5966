/** Who may purge by a request, and what the request means. */

import { describe, expect, it } from 'vitest';
import { createPeerList, identify } from '../../src/guard/client.ts';
import { type PurgeKind, selectPurge } from '../../src/guard/purge.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { routeRequest } from '../../src/routing/inquiry.ts';
import { createRouter } from '../../src/routing/router.ts';
import { routeWith } from '../routing/route-sample.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

interface Asked {
  readonly method?: string;
  readonly target?: string;
  readonly authority?: string;
  readonly fields?: readonly string[];
  readonly peer?: string;
  readonly kinds?: readonly PurgeKind[];
}

const all: readonly PurgeKind[] = ['url', 'prefix', 'tag'];
/** Of clients behind proxies: `10.0.0.1` and Unix sockets are trusted with what they tell of them. */
const isTrusted = createPeerList([{ address: '10.0.0.1', family: 'ipv4', prefixLength: 32 }, 'unix']);
const peers = [
  { address: '192.0.2.0', family: 'ipv4', prefixLength: 24 },
  { address: '2001:db8::', family: 'ipv6', prefixLength: 32 },
] as const;

function ask(
  { method = 'PURGE', target = '/a', authority = 'a.test', fields = [], peer = '192.0.2.7', kinds = all }: Asked,
  named: Parameters<typeof createPeerList>[0] = peers,
) {
  const received: ProxyRequest = {
    method,
    scheme: 'http',
    authority,
    target,
    version: '1.1',
    fields: fieldsOf(`Host: ${authority}`, ...fields),
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: peer, port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
  };
  const { request, client } = identify(received, { isTrusted, fields: 'x-forwarded' });
  const routed = routeRequest(request, createRouter([routeWith()]));
  try {
    return selectPurge(request, client, routed, { isNamed: createPeerList(named), kinds: new Set(kinds) })?.order;
  } catch (thrown) {
    return thrown instanceof ProxyError ? thrown.code : thrown;
  }
}

const nothing = { keys: [], prefixes: [], tags: [], mode: 'hard' };
/** Under either scheme and either spelling of the name. */
const under = (text: string, names = ['a.test', 'a.test.']) =>
  names.flatMap((name) => ['http', 'https'].map((scheme) => `http://origin.test/ ${scheme}://${name}${text}`));
/** One URL in all its spellings. */
const named = (keys: readonly string[]) => ({ keys, tags: keys.map((key) => `uri:${key}`) });
const url = { ...nothing, ...named(under('/a')) };

describe('who may purge', () => {
  it.each<[string, Asked, 'may' | 'may not']>([
    ['a named peer', {}, 'may'],
    ['a named peer over IPv6', { peer: '2001:db8::1' }, 'may'],
    ['a named peer of a socket for both families', { peer: '::ffff:192.0.2.9' }, 'may'],
    ['any other one', { peer: '198.51.100.1' }, 'may not'],
    ['this machine, where it is not named', { peer: '127.0.0.1' }, 'may not'],
    ['a peer of a Unix socket that is not named', { peer: '' }, 'may not'],
    ['who says by itself to be named', { peer: '198.51.100.1', fields: ['X-Forwarded-For: 192.0.2.7'] }, 'may not'],
    ['who says so by another field', { peer: '198.51.100.1', fields: ['Forwarded: for=192.0.2.7'] }, 'may not'],
    ['whom a trusted proxy tells to be named', { peer: '10.0.0.1', fields: ['X-Forwarded-For: 192.0.2.7'] }, 'may'],
    ['whom it tells to be another', { peer: '10.0.0.1', fields: ['X-Forwarded-For: 198.51.100.1'] }, 'may not'],
    [
      'who has said to a trusted proxy to be named',
      { peer: '10.0.0.1', fields: ['X-Forwarded-For: 192.0.2.7, 198.51.100.1'] },
      'may not',
    ],
    ['whom a trusted proxy hides', { peer: '10.0.0.1', fields: ['X-Forwarded-For: unknown'] }, 'may not'],
    // A named peer that turns out to be a proxy nobody was told of.
    ['for whom a named peer speaks', { fields: ['X-Forwarded-For: 198.51.100.1'] }, 'may not'],
    ['for whom a named peer speaks, though it says so itself', { fields: ['X-Forwarded-For: 192.0.2.7'] }, 'may not'],
    ['whose request came through a proxy', { fields: ['Via: 1.1 front'] }, 'may not'],
    ['whose request came through a CDN', { fields: ['CDN-Loop: front'] }, 'may not'],
    ['with X-Real-IP', { fields: ['X-Real-IP: 192.0.2.7'] }, 'may not'],
    ['the page of another site in its browser', { fields: ['Origin: https://evil.test'] }, 'may not'],
    ['a page of its own site', { fields: ['Sec-Fetch-Site: same-origin'] }, 'may not'],
  ])('%s', (_who, asked, want) => {
    expect(ask(asked)).toEqual(want === 'may' ? url : 'client_forbidden');
  });

  it.each<[string, Asked, 'may' | 'may not']>([
    ['the peer of a Unix socket', { peer: '' }, 'may'],
    ['whom a proxy at a Unix socket tells', { peer: '', fields: ['X-Forwarded-For: 198.51.100.1'] }, 'may not'],
    ['whom a proxy at a Unix socket hides', { peer: '', fields: ['X-Forwarded-For: unknown'] }, 'may not'],
    ['whom a proxy at an address hides', { peer: '10.0.0.1', fields: ['X-Forwarded-For: unknown'] }, 'may not'],
    ['for whom one speaks that tells of nobody', { peer: '', fields: ['Via: 1.1 front'] }, 'may not'],
  ])('where Unix sockets are named: %s', (_who, asked, want) => {
    expect(ask(asked, ['unix'])).toEqual(want === 'may' ? url : 'client_forbidden');
  });

  it.each(['GET', 'HEAD', 'DELETE', 'purge', 'Purge', 'BAN'])('%s is none', (method) => {
    expect(ask({ method })).toBeUndefined();
    expect(ask({ method, peer: '198.51.100.1' })).toBeUndefined();
  });

  it('is nobody where a route names nobody', () => {
    const request = { method: 'PURGE' } as ProxyRequest;
    const routed = { scheme: 'http' as const, authority: '', target: { path: '/', query: '' }, route: routeWith() };
    expect(selectPurge(request, { address: '192.0.2.7', forwardedFor: [] }, routed, undefined)).toBeUndefined();
  });
});

describe('what a request purges', () => {
  it.each<[Asked, unknown]>([
    [{}, url],
    [{ authority: 'A.test:80', target: '/x/../%61' }, url],
    [{ target: '/a?b=1' }, { ...nothing, ...named(under('/a?b=1')) }],
    [{ target: '/a?%62=1' }, { ...nothing, ...named(under('/a?b=1')) }],
    [
      { authority: '', target: '/a' },
      { ...nothing, ...named(under('/a', [''])) },
    ],
    [{ fields: ['Rangeway-Purge: soft'] }, { ...url, mode: 'soft' }],
    [{ fields: ['Rangeway-Purge: prefix'] }, { ...nothing, prefixes: under('/a') }],
    [
      { fields: ['Rangeway-Purge: prefix'], target: '/a/.' },
      { ...nothing, prefixes: under('/a/') },
    ],
    [{ fields: ['Rangeway-Purge: soft, prefix'] }, { ...nothing, prefixes: under('/a'), mode: 'soft' }],
    [
      { fields: ['Rangeway-Purge: prefix', 'Rangeway-Purge: soft'] },
      { ...nothing, prefixes: under('/a'), mode: 'soft' },
    ],
    [{ fields: ['Surrogate-Key: a b'] }, { ...nothing, tags: ['tag:a', 'tag:b'] }],
    [{ fields: ['Cache-Tag: a b,c'] }, { ...nothing, tags: ['tag:a b', 'tag:c'] }],
    [{ fields: ['Cache-Tag: a', 'Rangeway-Purge: soft'] }, { ...nothing, tags: ['tag:a'], mode: 'soft' }],
    // No less than what was meant, and no more.
    [{ fields: ['Rangeway-Purge: Soft'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: sotf'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: soft; x'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: soft, all'] }, 'malformed_request'],
    [{ fields: ['Surrogate-Key:'] }, 'malformed_request'],
    [{ fields: ['Cache-Tag: ,'] }, 'malformed_request'],
    [{ fields: [`Cache-Tag: ${'x'.repeat(2000)}`] }, 'malformed_request'],
    [{ fields: ['Cache-Tag: a', 'Rangeway-Purge: prefix'] }, 'malformed_request'],
    // By what the route lets nobody purge.
    [{ kinds: ['url'], fields: ['Rangeway-Purge: prefix'] }, 'client_forbidden'],
    [{ kinds: ['url', 'prefix'], fields: ['Surrogate-Key: a'] }, 'client_forbidden'],
    [{ kinds: ['tag'] }, 'client_forbidden'],
    [{ kinds: ['url'] }, url],
  ])('%j', (asked, want) => {
    expect(ask(asked)).toEqual(want);
  });
});
