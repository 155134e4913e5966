import { describe, expect, it } from 'vitest';
import { choosePassedSockets, readPassedSockets, takePassedSockets } from '../../src/listener/accept/bind.ts';

const pid = 4711;

describe('readPassedSockets', () => {
  it.each<[environment: Record<string, string>, sockets: [fd: number, name: string][]]>([
    [{ LISTEN_PID: '4711', LISTEN_FDS: '1' }, [[3, 'unknown']]],
    [
      { LISTEN_PID: '4711', LISTEN_FDS: '3', LISTEN_FDNAMES: 'web:web:admin' },
      [
        [3, 'web'],
        [4, 'web'],
        [5, 'admin'],
      ],
    ],
    [
      { LISTEN_PID: '4711', LISTEN_FDS: '3', LISTEN_FDNAMES: 'web::' },
      [
        [3, 'web'],
        [4, 'unknown'],
        [5, 'unknown'],
      ],
    ],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a:b' }, [[3, 'a']]],
    [{ LISTEN_PID: '4712', LISTEN_FDS: '1' }, []],
    [{ LISTEN_PID: ' 4711', LISTEN_FDS: '1' }, []],
    [{ LISTEN_FDS: '1' }, []],
    [{ LISTEN_PID: '4711' }, []],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '0' }, []],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '-1' }, []],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '1.5' }, []],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '1e9' }, []],
    [{ LISTEN_PID: '4711', LISTEN_FDS: '99999' }, []],
    [{}, []],
  ])('%j', (environment, sockets) => {
    expect(readPassedSockets(environment, pid)).toEqual(sockets.map(([fd, name]) => ({ fd, name })));
  });
});

describe('takePassedSockets', () => {
  it('removes their variables from the environment, even those for another process', () => {
    const environment = { LISTEN_PID: '1', LISTEN_FDS: '1', LISTEN_FDNAMES: 'a', LISTEN_PIDFDID: '9', PATH: '/bin' };
    expect(takePassedSockets(environment, pid)).toEqual([]);
    expect(environment).toEqual({ PATH: '/bin' });
  });
});

describe('choosePassedSockets', () => {
  const sockets = [
    { fd: 3, name: 'web' },
    { fd: 4, name: 'admin' },
    { fd: 5, name: 'web' },
  ];

  it.each<[name: string | undefined, fds: number[]]>([
    [undefined, [3, 4, 5]],
    ['web', [3, 5]],
    ['admin', [4]],
  ])('%s', (name, fds) => {
    expect(choosePassedSockets(sockets, name).map((place) => (place.kind === 'passed' ? place.fd : 0))).toEqual(fds);
  });

  it.each<[passed: typeof sockets, name: string | undefined, message: string]>([
    [[], undefined, 'cannot listen on systemd: no sockets were passed to this process; start it by a socket unit'],
    [[], 'web', 'cannot listen on systemd:web: no sockets were passed to this process; start it by a socket unit'],
    [sockets, 'x', 'cannot listen on systemd:x: no socket of this name was passed; those that were: web, admin'],
  ])('%j for %s: throws a clear message', (passed, name, message) => {
    expect(() => choosePassedSockets(passed, name)).toThrow(message);
  });
});
