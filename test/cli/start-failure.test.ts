import { describe, expect, it } from 'vitest';
import { describeStartFailure } from '../../src/cli/start-failure.ts';

function systemError(code: string, syscall: string, path?: string): Error {
  return Object.assign(new Error(`${code}: reason, ${syscall}\n    at somewhere`), {
    code,
    syscall,
    ...(path && { path }),
  });
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
    ['cannot start: it is late', new Error('it is late\nvery')],
    ['cannot start: late', 'late'],
  ])('%s', (want, error) => expect(describeStartFailure(error, { listen: { host: '::1', port: 80 } })).toBe(want));
});
