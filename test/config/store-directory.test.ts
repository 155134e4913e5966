import { describe, expect, it } from 'vitest';
import { defaultStoreDirectory } from '../../src/config/store-directory.ts';

describe('defaultStoreDirectory', () => {
  it.each<[what: string, host: string, xdgCacheHome: string | undefined, want: string]>([
    ['in the home directory', '127.0.0.1', undefined, '/home/ada/.cache/rangeway/127.0.0.1-8080'],
    ['where XDG_CACHE_HOME says', 'localhost', '/var/cache/ada', '/var/cache/ada/rangeway/localhost-8080'],
    ['an empty XDG_CACHE_HOME says nothing', 'localhost', '', '/home/ada/.cache/rangeway/localhost-8080'],
    ['nor does a relative one', 'localhost', 'cache', '/home/ada/.cache/rangeway/localhost-8080'],
    ['IPv6 without colons', '::1', undefined, '/home/ada/.cache/rangeway/__1-8080'],
  ])('%s', (_what, host, xdgCacheHome, want) => {
    expect(defaultStoreDirectory({ host, port: 8080 }, { XDG_CACHE_HOME: xdgCacheHome }, '/home/ada')).toBe(want);
  });

  it('none for port 0', () => {
    expect(defaultStoreDirectory({ host: 'localhost', port: 0 }, {}, '/home/ada')).toBeUndefined();
  });
});
