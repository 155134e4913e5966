import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nameProblem, overlayFlags, type ServeFlags } from '../../src/cli/serve.ts';

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
      'flags go before what the file says, and leave the rest',
      diskFile,
      undefined,
      { listen: '80', maxSize: '3GB' },
      { ...diskFile, listen: '80', store: { ...diskFile.store, maxSizeBytes: '3GB' } },
    ],
    [
      '--store memory puts away what the file says of a disk',
      diskFile,
      undefined,
      { store: 'memory' },
      { ...diskFile, store: { type: 'memory', maxSizeBytes: '1GB' } },
    ],
    ['--dir is relative to where the command is given', {}, undefined, { dir: 'x' }, { store: { dir: resolve('x') } }],
    ['--workers auto', {}, undefined, { workers: 'auto' }, { workers: 'auto' }],
    ['what is no number of workers is for the check', {}, undefined, { workers: '-1' }, { workers: '-1' }],
    ['--admin off', { admin: { listen: '1' }, routes }, undefined, { admin: 'off' }, { admin: 'off', routes }],
    [
      '--admin against off',
      { admin: 'off', routes },
      undefined,
      { admin: '9180' },
      { admin: { listen: '9180' }, routes },
    ],
    [
      '--admin goes before what the file says, and leaves the token',
      { admin: { listen: 'unix:/a', token: 'file:b' }, routes },
      undefined,
      { admin: '9180' },
      { admin: { listen: '9180', token: 'file:b' }, routes },
    ],
    [
      'paths behind unix: and file: are relative to where the command is given',
      {},
      undefined,
      { admin: 'unix:a.sock', adminToken: 'file:token' },
      { admin: { listen: `unix:${resolve('a.sock')}`, token: `file:${resolve('token')}` } },
    ],
    [
      'no path behind unix: and file: is for the check',
      {},
      undefined,
      { admin: 'unix:', adminToken: 'file:' },
      { admin: { listen: 'unix:', token: 'file:' } },
    ],
    ['a file without routes, and an origin', { listen: '9000' }, origin, {}, { listen: '9000', routes }],
    ['what is wrong in the file stays', { store: 3, routes }, undefined, { dir: '/b' }, { store: 3, routes }],
    ['a file that holds no object stays', [1], origin, { listen: '80' }, [1]],
  ])('%s', (_what, file, given, flags, want) => {
    expect(overlayFlags(file, given, flags)).toMatchObject({ kind: 'ok', value: want });
    const overlay = overlayFlags(file, given, flags);
    expect(overlay.kind === 'ok' ? overlay.value : overlay.reason).toEqual(want);
  });

  it.each<[want: RegExp, origin: string | undefined, flags: ServeFlags]>([
    [/^<origin> and the routes of a\.json exclude each other/, origin, { config: 'a.json' }],
    [/^--default-ttl goes with <origin>; in a\.json/, undefined, { config: 'a.json', defaultTtl: 0 }],
    [/^--insecure-tls goes with <origin>; in a\.json/, undefined, { config: 'a.json', insecureTls: true }],
    [/^--origin-host goes with <origin>; in a\.json/, undefined, { config: 'a.json', originHost: 'keep' }],
  ])('%s', (want, given, flags) => {
    expect(overlayFlags(diskFile, given, flags)).toEqual({ kind: 'refused', reason: expect.stringMatching(want) });
  });
});

describe('the token that --admin needs', () => {
  it.each<[what: string, file: unknown, flags: ServeFlags, want: string | undefined]>([
    ['is a flag that is missing', {}, { admin: '0.0.0.0:9180' }, '--admin-token'],
    ['is a flag that is wrong', {}, { admin: '9180', adminToken: 'x' }, '--admin-token'],
    ['is an option of the file where it is there', { admin: { token: 'x' } }, { admin: '9180' }, undefined],
    ['is an option where the file has the listener', { admin: { listen: '0.0.0.0:9180' } }, {}, undefined],
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
    expect(nameProblem({ path, message: 'm' }, setBy)).toEqual({ path: want, message: 'm', fromFlag });
  });
});
