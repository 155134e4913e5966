/** Purge requests: which clients may purge, and what a request purges. */

import { describe, expect, it } from 'vitest';
import { createPeerList, identify } from '../../src/guard/client.ts';
import { type PurgeKind, selectPurge } from '../../src/guard/purge.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { routeRequest } from '../../src/routing/inquiry.ts';
import { createRouter } from '../../src/routing/router.ts';
import { routeWith } from '../routing/route-sample.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

interface PurgeRequest {
  readonly method?: string;
  readonly target?: string;
  readonly authority?: string;
  readonly fields?: readonly string[];
  readonly peer?: string;
  readonly kinds?: readonly PurgeKind[];
}

const all: readonly PurgeKind[] = ['url', 'prefix', 'tag'];
/** `10.0.0.1` and Unix sockets are trusted proxies: their forwarding fields count. */
const isTrusted = createPeerList([{ address: '10.0.0.1', family: 'ipv4', prefixLength: 32 }, 'unix']);
const peers = [
  { address: '192.0.2.0', family: 'ipv4', prefixLength: 24 },
  { address: '2001:db8::', family: 'ipv6', prefixLength: 32 },
] as const;

function ask(
  { method = 'PURGE', target = '/a', authority = 'a.test', fields = [], peer = '192.0.2.7', kinds = all }: PurgeRequest,
  allowed: Parameters<typeof createPeerList>[0] = peers,
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
    return selectPurge(request, client, routed, { mayPurge: createPeerList(allowed), kinds: new Set(kinds) })?.order;
  } catch (thrown) {
    return thrown instanceof ProxyError ? thrown.code : thrown;
  }
}

const nothing = { keys: [], prefixes: [], tags: [], mode: 'hard' };
/** Returns the keys under both schemes and both spellings of the host name. */
const under = (text: string, names = ['a.test', 'a.test.']) =>
  names.flatMap((name) => ['http', 'https'].map((scheme) => `http://origin.test/ ${scheme}://${name}${text}`));
/** Returns a purge of one URL: its keys and their tags. */
const purgeOf = (keys: readonly string[]) => ({ keys, tags: keys.map((key) => `uri:${key}`) });
const url = { ...nothing, ...purgeOf(under('/a')) };

describe('the permission to purge', () => {
  it.each<[string, PurgeRequest, 'may' | 'may not']>([
    ['a listed peer', {}, 'may'],
    ['a listed peer over IPv6', { peer: '2001:db8::1' }, 'may'],
    ['a listed peer with an IPv4-mapped address', { peer: '::ffff:192.0.2.9' }, 'may'],
    ['any other peer', { peer: '198.51.100.1' }, 'may not'],
    ['this machine, where it is not listed', { peer: '127.0.0.1' }, 'may not'],
    ['the peer of a Unix socket that is not listed', { peer: '' }, 'may not'],
    [
      'a peer that claims a listed address',
      { peer: '198.51.100.1', fields: ['X-Forwarded-For: 192.0.2.7'] },
      'may not',
    ],
    [
      'a peer that claims a listed address in another field',
      { peer: '198.51.100.1', fields: ['Forwarded: for=192.0.2.7'] },
      'may not',
    ],
    [
      'a client with a listed address behind a trusted proxy',
      { peer: '10.0.0.1', fields: ['X-Forwarded-For: 192.0.2.7'] },
      'may',
    ],
    [
      'a client with another address behind a trusted proxy',
      { peer: '10.0.0.1', fields: ['X-Forwarded-For: 198.51.100.1'] },
      'may not',
    ],
    [
      'a client behind a trusted proxy that claims a listed address',
      { peer: '10.0.0.1', fields: ['X-Forwarded-For: 192.0.2.7, 198.51.100.1'] },
      'may not',
    ],
    ['a client that a trusted proxy hides', { peer: '10.0.0.1', fields: ['X-Forwarded-For: unknown'] }, 'may not'],
    // A listed peer that proves to be a proxy which is not configured.
    ['a client behind a listed peer', { fields: ['X-Forwarded-For: 198.51.100.1'] }, 'may not'],
    ['a client behind a listed peer, with a claimed address', { fields: ['X-Forwarded-For: 192.0.2.7'] }, 'may not'],
    ['a request that came through a proxy', { fields: ['Via: 1.1 front'] }, 'may not'],
    ['a request that came through a CDN', { fields: ['CDN-Loop: front'] }, 'may not'],
    ['a request with X-Real-IP', { fields: ['X-Real-IP: 192.0.2.7'] }, 'may not'],
    ['a request of a page of another site', { fields: ['Origin: https://evil.test'] }, 'may not'],
    ['a request of a page of the same site', { fields: ['Sec-Fetch-Site: same-origin'] }, 'may not'],
  ])('%s', (_who, request, want) => {
    expect(ask(request)).toEqual(want === 'may' ? url : 'client_forbidden');
  });

  it.each<[string, PurgeRequest, 'may' | 'may not']>([
    ['the peer of a Unix socket', { peer: '' }, 'may'],
    ['a client behind a proxy on a Unix socket', { peer: '', fields: ['X-Forwarded-For: 198.51.100.1'] }, 'may not'],
    ['a client that a proxy on a Unix socket hides', { peer: '', fields: ['X-Forwarded-For: unknown'] }, 'may not'],
    [
      'a client that a proxy with an address hides',
      { peer: '10.0.0.1', fields: ['X-Forwarded-For: unknown'] },
      'may not',
    ],
    [
      'a client behind a proxy on a Unix socket that adds only Via',
      { peer: '', fields: ['Via: 1.1 front'] },
      'may not',
    ],
  ])('where Unix sockets are listed: %s', (_who, request, want) => {
    expect(ask(request, ['unix'])).toEqual(want === 'may' ? url : 'client_forbidden');
  });

  it.each(['GET', 'HEAD', 'DELETE', 'purge', 'Purge', 'BAN'])('%s is no purge request', (method) => {
    expect(ask({ method })).toBeUndefined();
    expect(ask({ method, peer: '198.51.100.1' })).toBeUndefined();
  });
});

describe('the effect of a purge request', () => {
  it.each<[PurgeRequest, unknown]>([
    [{}, url],
    [{ authority: 'A.test:80', target: '/x/../%61' }, url],
    [{ target: '/a?b=1' }, { ...nothing, ...purgeOf(under('/a?b=1')) }],
    [{ target: '/a?%62=1' }, { ...nothing, ...purgeOf(under('/a?b=1')) }],
    [
      { authority: '', target: '/a' },
      { ...nothing, ...purgeOf(under('/a', [''])) },
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
    // Malformed requests are refused, and not taken for a wider or narrower purge.
    [{ fields: ['Rangeway-Purge: Soft'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: sotf'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: soft; x'] }, 'malformed_request'],
    [{ fields: ['Rangeway-Purge: soft, all'] }, 'malformed_request'],
    [{ fields: ['Surrogate-Key:'] }, 'malformed_request'],
    [{ fields: ['Cache-Tag: ,'] }, 'malformed_request'],
    [{ fields: [`Cache-Tag: ${'x'.repeat(2000)}`] }, 'malformed_request'],
    [{ fields: ['Cache-Tag: a', 'Rangeway-Purge: prefix'] }, 'malformed_request'],
    // Kinds of purges that the route does not allow.
    [{ kinds: ['url'], fields: ['Rangeway-Purge: prefix'] }, 'client_forbidden'],
    [{ kinds: ['url', 'prefix'], fields: ['Surrogate-Key: a'] }, 'client_forbidden'],
    [{ kinds: ['tag'] }, 'client_forbidden'],
    [{ kinds: ['url'] }, url],
  ])('%j', (request, want) => {
    expect(ask(request)).toEqual(want);
  });
});
