/** The default paths of the admin socket. */

import { describe, expect, it } from 'vitest';
import { longestSocketPath, parseListenPlace } from '../../src/config/address.ts';
import { runtimeDirectories, runtimeSocket, storeSocket } from '../../src/config/default-places.ts';

describe('storeSocket', () => {
  const longest = `/${'x'.repeat(longestSocketPath - '/admin.sock'.length - 1)}`;
  it.each([
    ['/var/cache/rangeway', '/var/cache/rangeway/admin.sock'],
    [longest, `${longest}/admin.sock`],
    [`${longest}x`, undefined],
    [`/${'ä'.repeat(50)}`, undefined],
    [undefined, undefined],
  ])('%s: %s', (directory, want) => expect(storeSocket(directory)).toBe(want));
});

describe('runtimeDirectories', () => {
  it.each<[string | undefined, readonly string[]]>([
    ['/run/user/7', ['/run/user/7/rangeway', '/tmp/rangeway-7']],
    ['run', ['/tmp/rangeway-7']],
    ['', ['/tmp/rangeway-7']],
    [undefined, ['/tmp/rangeway-7']],
  ])('%s: %j', (stated, want) => {
    const environment = { XDG_RUNTIME_DIR: stated };
    expect(runtimeDirectories({ environment, temporary: '/tmp', userId: 7 })).toEqual(want);
  });
});

describe('runtimeSocket', () => {
  it.each([
    ['127.0.0.1:8080', '/run/127.0.0.1_8080.sock'],
    ['[::1]:8080', '/run/___1__8080.sock'],
    ['unix:/srv/a.sock', '/run/unix__srv_a.sock.sock'],
    ['127.0.0.1:0', '/run/process-12.sock'],
  ])('%s: %s', (listen, want) => {
    const address = parseListenPlace(listen);
    if (address === undefined) throw new Error('no place');
    expect(runtimeSocket('/run', [{ address }], 12)).toBe(want);
  });

  it('is a hash of an address that is too long for a socket path', () => {
    const named = (path: string) => runtimeSocket('/run', [{ address: { kind: 'unix', path } }], 12);
    const [one, other] = [named(`/${'a'.repeat(100)}`), named(`/${'b'.repeat(100)}`)];
    expect(one).toMatch(/^\/run\/[0-9a-f]{16}\.sock$/);
    expect(one).not.toBe(other);
  });
});
