/** The option `access` of a route: accepted values, and the messages for others. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

/** Returns the checked `access`, or its problems. */
function checked(access: unknown) {
  const loaded = checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000', access }] }, '/etc/rangeway');
  return loaded.kind === 'ok'
    ? loaded.config.routes[0]?.access
    : loaded.problems.map(({ path, message }) => `${path}: ${message}`);
}

describe('access', () => {
  it.each<[access: object, want: object]>([
    [{}, { deny: [], realm: 'Rangeway', forwardCredentials: false }],
    [{ allow: ['192.0.2.7'] }, { allow: [{ address: '192.0.2.7', family: 'ipv4', prefixLength: 32 }] }],
    [{ deny: ['2001:db8::/32'] }, { deny: [{ address: '2001:db8::', family: 'ipv6', prefixLength: 32 }] }],
    [{ realm: "Ada's films (private)" }, { realm: "Ada's films (private)" }],
    [{ basic: 'file:users' }, { basic: { kind: 'file', name: '/etc/rangeway/users' } }],
    [{ bearer: 'file:/run/secrets/tokens' }, { bearer: { kind: 'file', name: '/run/secrets/tokens' } }],
    [{ apiKey: 'env:KEYS' }, { apiKey: { kind: 'env', name: 'KEYS' } }],
    [{ signedUrls: 'env:URL_KEYS', forwardCredentials: true }, { forwardCredentials: true }],
  ])('%j', (access, want) => expect(checked(access)).toMatchObject(want));

  it.each<[access: object, want: string]>([
    [{ allow: [] }, 'allow: '],
    [{ allow: ['media.example'] }, 'allow[0]: expected an IP address'],
    [{ allow: ['unix'] }, 'allow[0]: expected an IP address'],
    [{ deny: ['10.0.0.0/33'] }, 'deny[0]: expected an IP address'],
    [{ realm: '' }, 'realm: expected visible ASCII'],
    [{ realm: 'a"b' }, 'realm: expected visible ASCII'],
    [{ realm: 'a\\b' }, 'realm: expected visible ASCII'],
    [{ realm: 'a\r\nSet-Cookie: a=1' }, 'realm: expected visible ASCII'],
    [{ realm: 'caf\u00e9' }, 'realm: expected visible ASCII'],
    [{ realm: 'a'.repeat(101) }, 'realm: expected visible ASCII'],
    [{ basic: 'ada:secret' }, 'basic: expected "env:NAME", a variable of the environment, or "file:PATH"'],
    [{ bearer: 'env:' }, 'bearer: expected "env:NAME"'],
    [{ bearer: 'env:A-B' }, 'bearer: expected "env:NAME"'],
    [{ apiKey: 'file:' }, 'apiKey: expected "env:NAME"'],
    [{ apiKey: 'file:a\nb' }, 'apiKey: expected "env:NAME"'],
    [{ forwardCredentials: true }, 'forwardCredentials: no credentials are asked for here'],
    [{ forwardCredentials: true, allow: ['::1'] }, 'forwardCredentials: no credentials are asked for here'],
    [{ signedURLs: 'env:A' }, 'signedURLs: '],
  ])('refuses %j', (access, want) => {
    const problems = checked(access);
    expect(problems).toEqual([expect.stringMatching(/^routes\[0\]\.access\./)]);
    expect(String(problems).slice('routes[0].access.'.length, 'routes[0].access.'.length + want.length)).toBe(want);
  });

  it('does not repeat a secret that stands in place of its source', () => {
    expect(String(checked({ basic: 'hidden', bearer: ['hidden'], apiKey: { value: 'hidden' } }))).not.toContain(
      'hidden',
    );
  });
});
