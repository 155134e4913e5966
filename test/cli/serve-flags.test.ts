import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nameProblemByFlag, overlayFlags, type ServeFlags } from '../../src/cli/serve-config.ts';

const origin = 'http://127.0.0.1:3000';
const routes = [{ origin }];
const diskFile = {
  listen: '9000',
  store: {
    type: 'disk',
    dir: '/a',
    maxSizeBytes: '1GB',
    lowWaterPercent: 90,
    minFreeBytes: '3GB',
    idleFileSeconds: 5,
    memoryBytes: '2MB',
  },
  routes,
};

describe('overlayFlags', () => {
  it.each<[what: string, file: unknown, origin: string | undefined, flags: ServeFlags, want: unknown]>([
    ['an origin alone', {}, origin, {}, { routes }],
    [
      '--insecure-tls',
      {},
      'https://127.0.0.1:3443',
      { insecureTls: true },
      { routes: [{ origin: { url: 'https://127.0.0.1:3443', insecureTls: true } }] },
    ],
    ['a file alone', diskFile, undefined, {}, diskFile],
    [
      'every flag',
      {},
      origin,
      {
        listen: '80',
        store: 'disk',
        dir: '/b',
        maxSize: '3GB',
        memory: '4MB',
        defaultTtl: 1500,
        originHost: 'keep',
        workers: '4',
        admin: '9180',
        adminToken: 'env:TOKEN',
        logLevel: 'warn',
        logFormat: 'json',
      },
      {
        listen: '80',
        store: { type: 'disk', dir: '/b', maxSizeBytes: '3GB', memoryBytes: '4MB' },
        workers: 4,
        admin: { listen: '9180', token: 'env:TOKEN' },
        log: { level: 'warn', format: 'json' },
        routes: [{ origin: { url: origin, host: 'keep' }, cache: { defaultTtlSeconds: 1.5 } }],
      },
    ],
    [
      'flags override options of the file, and leave the rest',
      diskFile,
      undefined,
      { listen: '80', maxSize: '3GB' },
      { ...diskFile, listen: '80', store: { ...diskFile.store, maxSizeBytes: '3GB' } },
    ],
    [
      '--store memory removes the disk options of the file',
      diskFile,
      undefined,
      { store: 'memory' },
      { ...diskFile, store: { type: 'memory', maxSizeBytes: '1GB' } },
    ],
    ['--dir is relative to the working directory', {}, undefined, { dir: 'x' }, { store: { dir: resolve('x') } }],
    ['--workers auto', {}, undefined, { workers: 'auto' }, { workers: 'auto' }],
    ['an invalid number of workers is left to the check', {}, undefined, { workers: '-1' }, { workers: '-1' }],
    ['--admin off', { admin: { listen: '1' }, routes }, undefined, { admin: 'off' }, { admin: 'off', routes }],
    [
      '--admin overrides off',
      { admin: 'off', routes },
      undefined,
      { admin: '9180' },
      { admin: { listen: '9180' }, routes },
    ],
    [
      '--admin overrides the listener of the file, and leaves its token',
      { admin: { listen: 'unix:/a', token: 'file:b' }, routes },
      undefined,
      { admin: '9180' },
      { admin: { listen: '9180', token: 'file:b' }, routes },
    ],
    [
      'paths behind unix: and file: are relative to the working directory',
      {},
      undefined,
      { admin: 'unix:a.sock', adminToken: 'file:token' },
      { admin: { listen: `unix:${resolve('a.sock')}`, token: `file:${resolve('token')}` } },
    ],
    [
      'an empty path behind unix: or file: is left to the check',
      {},
      undefined,
      { admin: 'unix:', adminToken: 'file:' },
      { admin: { listen: 'unix:', token: 'file:' } },
    ],
    ['a file without routes, and an origin', { listen: '9000' }, origin, {}, { listen: '9000', routes }],
    ['invalid options of the file stay', { store: 3, routes }, undefined, { dir: '/b' }, { store: 3, routes }],
    ['a file without an object stays', [1], origin, { listen: '80' }, [1]],
  ])('%s', (_what, file, originFlag, flags, want) => {
    expect(overlayFlags(file, originFlag, flags)).toMatchObject({ kind: 'ok', value: want });
    const overlay = overlayFlags(file, originFlag, flags);
    expect(overlay.kind === 'ok' ? overlay.value : overlay.reason).toEqual(want);
  });

  it.each<[want: RegExp, origin: string | undefined, flags: ServeFlags]>([
    [/^<origin> and the routes of a\.json exclude each other/, origin, { config: 'a.json' }],
    [/^--default-ttl goes with <origin>; in a\.json/, undefined, { config: 'a.json', defaultTtl: 0 }],
    [/^--insecure-tls goes with <origin>; in a\.json/, undefined, { config: 'a.json', insecureTls: true }],
    [/^--origin-host goes with <origin>; in a\.json/, undefined, { config: 'a.json', originHost: 'keep' }],
  ])('%s', (want, originFlag, flags) => {
    expect(overlayFlags(diskFile, originFlag, flags)).toEqual({ kind: 'refused', reason: expect.stringMatching(want) });
  });
});

describe('a problem with the admin token', () => {
  it.each<[what: string, file: unknown, flags: ServeFlags, want: string | undefined]>([
    ['names --admin-token where --admin needs it', {}, { admin: '0.0.0.0:9180' }, '--admin-token'],
    ['names --admin-token where its value is invalid', {}, { admin: '9180', adminToken: 'x' }, '--admin-token'],
    ['names the option where the file has the token', { admin: { token: 'x' } }, { admin: '9180' }, undefined],
    ['names the option where the file has the listener', { admin: { listen: '0.0.0.0:9180' } }, {}, undefined],
  ])('%s', (_what, file, flags, want) => {
    const overlay = overlayFlags(file, undefined, flags);
    expect(overlay.kind === 'ok' && overlay.setBy.get('admin.token')).toBe(want);
  });
});

describe('nameProblem', () => {
  const setBy = new Map([['store.maxSizeBytes', '--max-size']]);

  it.each<[path: string, want: string, fromFlag: boolean]>([
    ['store.maxSizeBytes', '--max-size', true],
    ['store.memoryBytes', 'store.memoryBytes', false],
    ['', '', false],
  ])('%s', (path, want, fromFlag) => {
    expect(nameProblemByFlag({ path, message: 'm' }, setBy)).toEqual({ path: want, message: 'm', fromFlag });
  });
});
