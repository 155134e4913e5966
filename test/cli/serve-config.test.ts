import { describe, expect, it } from 'vitest';
import { withSameStoreDirectory, withStoreDirectory } from '../../src/cli/serve.ts';
import { checkConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';

function configWith(store: object, listen = '127.0.0.1:8080'): Config {
  const checked = checkConfig({ listen, store, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

const world = { env: {}, home: '/home/ann' };
const dirOf = ({ store }: Config) => (store.type === 'disk' ? store.dir : 'in memory');

describe('the directory of the store after a reload', () => {
  it.each<[what: string, written: object, next: object, listen: string, want: string | undefined]>([
    ['is that by default', {}, {}, '127.0.0.1:8080', '/home/ann/.cache/rangeway/127.0.0.1-8080'],
    ['stays where it listens elsewhere', {}, {}, '127.0.0.1:9090', '/home/ann/.cache/rangeway/127.0.0.1-8080'],
    ['is the one that is named now', {}, { dir: '/b' }, '127.0.0.1:8080', '/b'],
    ['is none where one was named before', { dir: '/a' }, {}, '127.0.0.1:8080', undefined],
    ['is that which is named', { dir: '/a' }, { dir: '/a' }, '127.0.0.1:9090', '/a'],
    ['is none in memory', {}, { type: 'memory' }, '127.0.0.1:8080', 'in memory'],
    ['is none after memory', { type: 'memory' }, {}, '127.0.0.1:8080', undefined],
  ])('%s', (_what, written, next, listen, want) => {
    const before = configWith(written);
    const running = withStoreDirectory(before, world);
    expect(dirOf(withSameStoreDirectory(configWith(next, listen), before, running))).toBe(want);
  });
});
