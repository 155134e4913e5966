import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

const routes = [{ origin: 'http://127.0.0.1:3000' }];
const tls = { certificates: [{ certFile: 'a.pem', keyFile: 'a.key' }] };

function problemsOf(config: object): string[] {
  const checked = checkConfig({ routes, ...config }, '/etc/rangeway');
  return checked.kind === 'ok' ? [] : checked.problems.map(({ path, message }) => `${path}: ${message}`);
}

describe('listen', () => {
  it.each<[listen: unknown, problem: string | undefined]>([
    ['8080', undefined],
    [['8080', '8081'], undefined],
    [['0', '0'], undefined],
    [['8080', '0.0.0.0:8080'], undefined],
    [['8080', '127.0.0.1:8080'], 'listen[1]: listen[0] listens on 127.0.0.1:8080 already'],
    [['8080', { address: '8080', tls }], 'listen[1]: listen[0] listens on 127.0.0.1:8080 already'],
    [['localhost:80', 'LOCALHOST:80'], 'listen[1]: listen[0] listens on localhost:80 already'],
    [['unix:a', 'unix:b'], undefined],
    [['unix:a', 'unix:./b/../a'], 'listen[1]: listen[0] listens on unix:a already'],
    [['systemd:a', 'systemd:b'], undefined],
    [['systemd:a', 'systemd'], 'listen[1]: listen[0] listens on systemd:a already'],
    [['systemd', '80', 'systemd:a'], 'listen[2]: listen[0] listens on systemd already'],
    [['systemd:a', 'systemd:a'], 'listen[1]: listen[0] listens on systemd:a already'],
    [
      [{ address: '8080', tls, redirectToHttpsPort: 443 }],
      'listen[0].redirectToHttpsPort: is for a listener without tls',
    ],
    [[{ address: '8080', mode: '0660' }], 'listen[0].mode: applies to a Unix socket only'],
    [[{ address: 'unix:a', mode: '660' }], undefined],
    [[{ address: 'unix:a', mode: '0880' }], 'listen[0].mode: expected permissions such as "0660", found "0880"'],
    [[{ address: '8080', tls: { certificates: [] } }], 'listen[0].tls.certificates: needs at least 1 element'],
    [
      [{ address: '8080', tls: { ...tls, minVersion: '1.1' } }],
      'listen[0].tls.minVersion: expected "1.2" or "1.3", found "1.1"; did you mean "1.2"?',
    ],
    [[{ address: '8080', redirectToHttpsPort: 0 }], 'listen[0].redirectToHttpsPort: must be at least 1, found 0'],
    [[], 'listen: needs at least 1 element'],
  ])('%j', (listen, problem) => expect(problemsOf({ listen })).toEqual(problem === undefined ? [] : [problem]));

  it.each<[trustedProxies: string[], problem: string | undefined]>([
    [[], 'listen[1].proxyProtocol: needs trustedProxies: only they may connect'],
    [['10.0.0.0/8'], undefined],
  ])('with the PROXY protocol, trusting %j', (trustedProxies, problem) => {
    const listen = ['8080', { address: '8081', proxyProtocol: true }];
    expect(problemsOf({ listen, trustedProxies })).toEqual(problem === undefined ? [] : [problem]);
  });

  it('resolves paths from the directory of the configuration', () => {
    const listen = [
      { address: 'unix:run/web.sock', mode: '0660' },
      { address: '8443', tls },
    ];
    const checked = checkConfig({ routes, listen }, '/etc/rangeway');
    expect(checked.kind === 'ok' && checked.config.listen).toMatchObject([
      { address: { kind: 'unix', path: '/etc/rangeway/run/web.sock' }, mode: 0o660 },
      {
        tls: { minVersion: '1.2', certificates: [{ certFile: '/etc/rangeway/a.pem', keyFile: '/etc/rangeway/a.key' }] },
      },
    ]);
  });
});
