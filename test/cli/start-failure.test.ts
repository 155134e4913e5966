import { describe, expect, it } from 'vitest';
import { describeReloadFailure, describeStartFailure } from '../../src/cli/serve.ts';
import { checkConfig } from '../../src/config/load.ts';
import { ListenFault } from '../../src/listener/accept/bind.ts';
import { StoreFault } from '../../src/store/store.ts';

function systemError(code: string, syscall: string, path?: string): Error {
  return Object.assign(new Error(`${code}: reason, ${syscall}\n    at somewhere`), {
    code,
    syscall,
    ...(path && { path }),
  });
}

/** Returns a configuration for [::1]:80 with this store. */
function configWith(store: object) {
  const checked = checkConfig({ listen: '[::1]:80', store, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

describe('describeStartFailure', () => {
  it.each<[want: string, error: unknown]>([
    [
      'cannot listen on [::1]:80: the port is in use; choose another with --listen',
      systemError('EADDRINUSE', 'listen'),
    ],
    [
      'cannot listen on [::1]:80: no permission for this port; choose one above 1023 with --listen',
      systemError('EACCES', 'listen'),
    ],
    ['cannot listen on [::1]:80: this machine does not have the address ::1', systemError('EADDRNOTAVAIL', 'listen')],
    ['cannot listen on [::1]:80: the name ::1 is unknown', systemError('ENOTFOUND', 'getaddrinfo')],
    ['cannot listen on [::1]:80: EMFILE: reason, listen', systemError('EMFILE', 'listen')],
    ['cannot use /var/x: EACCES: reason, mkdir', systemError('EACCES', 'mkdir', '/var/x')],
    [
      'cannot use /var/x: EROFS: reason, open',
      new Error('store', { cause: new Error('index', { cause: systemError('EROFS', 'open', '/var/x') }) }),
    ],
    [
      'cannot use /var/x: ENOENT: reason, mkdir',
      new StoreFault('io', 'It cannot be created: why', { cause: systemError('ENOENT', 'mkdir', '/var/x') }),
    ],
    ['cannot start. The store is newer. Choose another.', new StoreFault('io', 'The store is newer. Choose another.')],
    ['cannot use /etc/a.pem: it is no certificate', new ListenFault('cannot use /etc/a.pem: it is no certificate')],
    ['cannot start: it is late', new Error('it is late\nvery')],
    ['cannot start: late', 'late'],
  ])('%s', (want, error) => expect(describeStartFailure(error, configWith({}))).toBe(want));

  it.each<[code: string, want: string]>([
    ['EADDRINUSE', 'cannot listen on unix:/run/b: another process listens there'],
    ['EACCES', 'cannot listen on unix:/run/b: no permission to make this socket'],
  ])('%s at one of several Unix sockets', (code, want) => {
    const listen = ['8080', 'unix:/run/a', 'unix:/run/b'];
    const checked = checkConfig({ listen, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
    if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
    const error = Object.assign(systemError(code, 'listen'), { address: '/run/b' });
    expect(describeStartFailure(error, checked.config)).toBe(want);
  });

  it.each<[listen: string[], address: string, want: string]>([
    [
      ['127.0.0.1:8080', '192.0.2.1:8080'],
      '192.0.2.1',
      'cannot listen on 192.0.2.1:8080: this machine does not have the address 192.0.2.1',
    ],
    [
      ['[::]:8080', 'a.test:8080'],
      '192.0.2.1',
      'cannot listen on a.test:8080: this machine does not have the address a.test',
    ],
  ])('names the listener out of %j with the address %s, where several share a port', (listen, address, want) => {
    const checked = checkConfig({ listen, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
    if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
    const error = Object.assign(systemError('EADDRNOTAVAIL', 'listen'), { address, port: 8080 });
    expect(describeStartFailure(error, checked.config)).toBe(want);
  });

  it.each<[admin: string, facts: object, want: string]>([
    [
      '9180',
      { address: '127.0.0.1', port: 9180 },
      'cannot listen on 127.0.0.1:9180: the port is in use; choose another with --admin',
    ],
    [
      '9180',
      { address: '127.0.0.1', port: 8080 },
      'cannot listen on 127.0.0.1:8080: the port is in use; choose another with --listen',
    ],
    ['unix:/run/a', { address: '/run/a' }, 'cannot listen on unix:/run/a: another process listens there'],
  ])('names the right flag with an admin listener at %s, by %j', (admin, facts, want) => {
    const checked = checkConfig({ admin: { listen: admin }, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/');
    if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
    const error = Object.assign(systemError('EADDRINUSE', 'listen'), facts);
    expect(describeStartFailure(error, checked.config)).toBe(want);
  });

  it.each<[store: object, want: string]>([
    [{}, 'cannot listen on [::1]:80: a Rangeway seems to run there already; choose another address with --listen'],
    [{ dir: '/var/x' }, 'cannot use /var/x: it is in use by another process; choose another directory with --dir'],
    [
      { type: 'redis', local: { dir: '/var/x' } },
      'cannot use /var/x: it is in use by another process; choose another directory in store.local.dir',
    ],
  ])('a store in use that is configured as %j', (store, want) => {
    expect(describeStartFailure(new StoreFault('in_use', 'It is in use.'), configWith(store))).toBe(want);
  });
});

describe('describeReloadFailure', () => {
  it.each<[want: string, error: unknown]>([
    ['cannot listen on [::1]:80: the port is in use', systemError('EADDRINUSE', 'listen')],
    ['cannot listen on [::1]:80: no permission for this port', systemError('EACCES', 'listen')],
    ['cannot listen on [::1]:80: EMFILE: reason, listen', systemError('EMFILE', 'listen')],
    ['cannot use /var/x: EACCES: reason, open', systemError('EACCES', 'open', '/var/x')],
    ['cannot use a.pem: it is empty', new ListenFault('cannot use a.pem: it is empty')],
    ['cannot use it: the secret env:X is not set', new Error('the secret env:X is not set')],
  ])('%s', (want, error) => {
    expect(describeReloadFailure(error, configWith({}))).toBe(want);
  });
});
