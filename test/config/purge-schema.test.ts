/** The option `purge` of a route: accepted values, and the paths of problems. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

const check = (purge: unknown) => checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000', purge }] }, '.');

describe('purge accepts', () => {
  const lan = { address: '10.0.0.0', family: 'ipv4', prefixLength: 8 };
  it.each<[purge: unknown, want: unknown]>([
    [undefined, { peers: [], by: ['url'] }],
    [{}, { peers: [], by: ['url'] }],
    [{ peers: ['10.0.0.0/8', 'unix'] }, { peers: [lan, 'unix'], by: ['url'] }],
    [
      { peers: ['unix'], by: ['url', 'prefix', 'tag'] },
      { peers: ['unix'], by: ['url', 'prefix', 'tag'] },
    ],
    [
      { peers: ['unix'], by: ['tag'] },
      { peers: ['unix'], by: ['tag'] },
    ],
  ])('%j', (purge, want) => {
    expect(check(purge)).toMatchObject({ kind: 'ok', config: { routes: [{ purge: want }] } });
  });
});

describe('purge refuses', () => {
  it.each<[purge: unknown, path: string]>([
    [{ peers: 'unix' }, 'routes.0.purge.peers'],
    [{ peers: ['localhost'] }, 'routes.0.purge.peers.0'],
    [{ peers: Array.from({ length: 101 }, () => 'unix') }, 'routes.0.purge.peers'],
    [{ by: [] }, 'routes.0.purge.by'],
    [{ by: ['host'] }, 'routes.0.purge.by.0'],
    [{ by: 'url' }, 'routes.0.purge.by'],
    [{ methods: ['PURGE'] }, 'routes.0.purge.methods'],
  ])('%j: %s', (purge, path) => {
    const checked = check(purge);
    const problems = checked.kind === 'invalid' ? checked.problems : [];
    expect(JSON.stringify(problems).replaceAll(/\[(\d+)\]/g, '.$1')).toContain(path);
  });
});
