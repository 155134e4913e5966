/** The options of the admin listener. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import type { AdminConfig } from '../../src/config/schema.ts';

const routes = [{ origin: 'http://origin.test' }];

function check(admin: unknown, more: object = {}): AdminConfig | 'off' | undefined | readonly string[] {
  const checked = checkConfig({ admin, routes, ...more }, '/etc/rangeway');
  if (checked.kind === 'ok') return checked.config.admin;
  return checked.problems.map(({ path, message }) => `${path}: ${message}`);
}

const defaults = { listen: { kind: 'tcp', host: '127.0.0.1', port: 9180 }, token: undefined, hosts: [] };
const tokenRequired = ['admin.token: is required where other machines can connect'];

describe('admin', () => {
  it.each<[admin: object | string | undefined, want: unknown]>([
    [undefined, undefined],
    ['off', 'off'],
    ['on', [expect.stringMatching(/^admin: .*"off"/)]],
    [{}, defaults],
    [{ listen: '9999' }, { ...defaults, listen: { kind: 'tcp', host: '127.0.0.1', port: 9999 } }],
    [{ listen: '[::1]:0' }, { ...defaults, listen: { kind: 'tcp', host: '::1', port: 0 } }],
    [{ listen: 'LOCALHOST:1' }, { ...defaults, listen: { kind: 'tcp', host: 'LOCALHOST', port: 1 } }],
    [{ listen: '127.9.9.9:1' }, { ...defaults, listen: { kind: 'tcp', host: '127.9.9.9', port: 1 } }],
    [{ listen: 'unix:admin.sock' }, { ...defaults, listen: { kind: 'unix', path: '/etc/rangeway/admin.sock' } }],
    [{ token: 'file:t' }, { ...defaults, token: { kind: 'file', name: '/etc/rangeway/t' } }],
    [{ token: 'env:T' }, { ...defaults, token: { kind: 'env', name: 'T' } }],
    [{ hosts: ['Admin.Example'] }, { ...defaults, hosts: ['admin.example'] }],
    [{ listen: '0.0.0.0:1' }, tokenRequired],
    [{ listen: '[::]:1' }, tokenRequired],
    [{ listen: '192.0.2.1:1' }, tokenRequired],
    [{ listen: 'admin.example:1' }, tokenRequired],
    [{ listen: 'localhost.evil.test:1' }, tokenRequired],
    [{ listen: '0.0.0.0:1', token: 'env:T' }, expect.objectContaining({ token: { kind: 'env', name: 'T' } })],
    [{ listen: 'systemd' }, ['admin.listen: expected [host:]port such as "9180" or "unix:PATH"']],
    [{ hosts: ['a b'] }, [expect.stringMatching(/^admin\.hosts\[0\]: expected a host name/)]],
    [{ hosts: ['a', 'A'] }, ['admin.hosts[1]: "a" is named twice']],
    [{ hosts: ['*.example'] }, [expect.stringMatching(/^admin\.hosts\[0\]: expected a host name/)]],
    [{ port: 1 }, [expect.stringMatching(/^admin\.port: /)]],
    // The value may be the token itself, so the message does not repeat it.
    [
      { token: 'hunter2hunter2hunter2' },
      ['admin.token: expected "env:NAME", a variable of the environment, or "file:PATH"'],
    ],
  ])('%j', (admin, want) => expect(check(admin)).toEqual(want));

  it('refuses the address of another listener', () => {
    const taken = 'listen[0] listens on 127.0.0.1:9180 already';
    expect(check({}, { listen: '9180' })).toEqual([`admin.listen: ${taken}`]);
    expect(check({ listen: '127.0.0.1:0' }, { listen: '127.0.0.1:0' })).toMatchObject({ hosts: [] });
  });
});
