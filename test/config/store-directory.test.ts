import { describe, expect, it } from 'vitest';
import type { ListenPlace } from '../../src/config/address.ts';
import { defaultStoreDirectory } from '../../src/config/default-places.ts';

const at = (address: ListenPlace) => [{ address }];

describe('defaultStoreDirectory', () => {
  it.each<[what: string, host: string, xdgCacheHome: string | undefined, want: string]>([
    ['is in the home directory', '127.0.0.1', undefined, '/home/ada/.cache/rangeway/127.0.0.1-8080'],
    ['is in XDG_CACHE_HOME', 'localhost', '/var/cache/ada', '/var/cache/ada/rangeway/localhost-8080'],
    ['ignores an empty XDG_CACHE_HOME', 'localhost', '', '/home/ada/.cache/rangeway/localhost-8080'],
    ['ignores a relative XDG_CACHE_HOME', 'localhost', 'cache', '/home/ada/.cache/rangeway/localhost-8080'],
    ['replaces the colons of an IPv6 address', '::1', undefined, '/home/ada/.cache/rangeway/__1-8080'],
  ])('%s', (_what, host, xdgCacheHome, want) => {
    expect(
      defaultStoreDirectory(at({ kind: 'tcp', host, port: 8080 }), { XDG_CACHE_HOME: xdgCacheHome }, '/home/ada'),
    ).toBe(want);
  });

  it.each<[place: ListenPlace, want: string]>([
    [{ kind: 'unix', path: '/run/rangeway.sock' }, '/home/ada/.cache/rangeway/unix_run_rangeway.sock'],
    [{ kind: 'systemd', name: undefined }, '/home/ada/.cache/rangeway/systemd'],
    [{ kind: 'systemd', name: 'web' }, '/home/ada/.cache/rangeway/systemd-web'],
  ])('is named after the listener %o', (place, want) =>
    expect(defaultStoreDirectory(at(place), {}, '/home/ada')).toBe(want),
  );

  it('does not exist for port 0', () => {
    expect(defaultStoreDirectory(at({ kind: 'tcp', host: 'localhost', port: 0 }), {}, '/home/ada')).toBeUndefined();
  });
});
