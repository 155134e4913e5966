import { describe, expect, it } from 'vitest';
import { describeFixedChanges, findFixedChanges } from '../../src/setup/reload.ts';
import { configOf, type WrittenConfig } from '../support/processes/reloaded-server.ts';

const routes = [{ origin: 'http://127.0.0.1:3000' }];
const redis = { type: 'redis' };
const token = 'env:TOKEN';

describe('findFixedChanges', () => {
  it.each<[before: WrittenConfig, after: WrittenConfig, want: readonly string[]]>([
    [{}, {}, []],
    [{}, { listen: '127.0.0.1:9', shutdownGraceSeconds: 3, log: { level: 'debug' } }, []],
    [{}, { routes: [{ origin: 'http://127.0.0.1:4000' }], trustedProxies: ['unix'], limits: { connections: 9 } }, []],
    [{}, { store: { type: 'memory', maxSizeBytes: '10MB' } }, ['store.maxSizeBytes']],
    [{ store: { dir: '/a' } }, { store: { dir: '/b', memoryBytes: '2MB' } }, ['store.dir', 'store.memoryBytes']],
    [{ store: {} }, { store: { dir: '/b' } }, ['store.dir']],
    [{ store: { dir: '/b' } }, { store: {} }, ['store.dir']],
    [{ store: { blockSizeBytes: 262_144 } }, { store: { blockSizeBytes: '256KiB' } }, []],
    [{ store: { dir: '/a' }, workers: 2 }, { store: { dir: '/a' }, workers: 'auto' }, ['workers']],
    [{}, { admin: {} }, ['admin']],
    [{ admin: {} }, {}, ['admin']],
    [{}, { admin: 'off' }, ['admin']],
    [{ admin: {} }, { admin: { listen: '9999' } }, ['admin.listen']],
    [{ admin: { token } }, { admin: { token: 'env:OTHER' } }, ['admin.token']],
    [{}, { pseudonym: 'b' }, ['pseudonym']],
    [{ store: redis }, { store: redis, fleet: {} }, ['fleet']],
    [{ store: redis, fleet: {} }, { store: redis, fleet: { listen: '7400' } }, ['fleet.listen']],
    [{ pseudonym: 'a' }, {}, ['pseudonym']],
    [{}, { log: { format: 'json' } }, ['log.format']],
    [{ listen: 'unix:/a' }, { listen: [{ address: 'unix:/a', mode: '0600' }] }, ['listen[0].mode']],
    [{ listen: 'unix:/a' }, { listen: ['unix:/a', { address: 'unix:/b', mode: '0600' }] }, []],
  ])('from %j to %j: %j', (before, after, want) => {
    expect(findFixedChanges(configOf({ routes, ...before }), configOf({ routes, ...after }))).toEqual(want);
  });
});

describe('describeFixedChanges', () => {
  it('names all changed options, and says that they need a restart', () => {
    const after = configOf({ routes, pseudonym: 'b', log: { format: 'json' } });
    expect(describeFixedChanges(configOf({ routes }), after)).toBe(
      'pseudonym, log.format cannot be changed while the server runs: this needs a restart',
    );
    expect(describeFixedChanges(after, after)).toBeUndefined();
  });
});
