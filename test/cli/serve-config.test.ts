import { describe, expect, it } from 'vitest';
import { keepStoreDirectory, withStoreDirectory } from '../../src/cli/serve-config.ts';
import { checkConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';

function configWith(store: object, listen = '127.0.0.1:8080'): Config {
  const checked = checkConfig({ listen, store, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

const surroundings = { env: {}, home: '/home/ann' };
const dirOf = ({ store }: Config) => (store.type === 'disk' ? store.dir : 'in memory');

describe('the directory of the store after a reload', () => {
  it.each<[what: string, written: object, next: object, listen: string, want: string | undefined]>([
    ['is the default one', {}, {}, '127.0.0.1:8080', '/home/ann/.cache/rangeway/127.0.0.1-8080'],
    ['stays when the server listens elsewhere', {}, {}, '127.0.0.1:9090', '/home/ann/.cache/rangeway/127.0.0.1-8080'],
    ['is the one that the new configuration names', {}, { dir: '/b' }, '127.0.0.1:8080', '/b'],
    ['is undefined where only the old configuration named one', { dir: '/a' }, {}, '127.0.0.1:8080', undefined],
    ['is the one that both configurations name', { dir: '/a' }, { dir: '/a' }, '127.0.0.1:9090', '/a'],
    ['does not exist for a memory store', {}, { type: 'memory' }, '127.0.0.1:8080', 'in memory'],
    ['is undefined after a memory store', { type: 'memory' }, {}, '127.0.0.1:8080', undefined],
  ])('%s', (_what, written, next, listen, want) => {
    const before = configWith(written);
    const running = withStoreDirectory(before, surroundings);
    expect(dirOf(keepStoreDirectory(configWith(next, listen), before, running))).toBe(want);
  });
});
