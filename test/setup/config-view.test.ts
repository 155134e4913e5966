/** The configuration as it is shown: complete except for values that may be secret. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { checkConfig, parseConfigText } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { describeConfig } from '../../src/setup/operations.ts';

function checked(value: unknown): Config {
  const result = checkConfig(value, '/etc/rangeway');
  if (result.kind === 'invalid') throw new Error(JSON.stringify(result.problems));
  return result.config;
}

function viewOf(value: object): Record<string, unknown> {
  return describeConfig(checked({ routes: [{ origin: 'http://origin.test' }], ...value }));
}

describe('describeConfig', () => {
  it('returns a valid configuration: checked again, it is the same one', () => {
    const text = parseConfigText(readFileSync(new URL('../../config.example.json', import.meta.url), 'utf8'));
    if (text.kind === 'invalid') throw new Error('the example is no JSON');
    const { $schema: _schema, ...config } = checked(text.value);
    const view = JSON.parse(JSON.stringify(describeConfig(config)));
    const { $schema: _again, ...again } = checked(view);
    const withoutSet = (value: Config): unknown => ({
      ...value,
      routes: value.routes.map(({ fields, ...route }) => ({
        ...route,
        fields: { ...fields, toOrigin: { ...fields.toOrigin, set: {}, add: {} } },
      })),
    });
    expect(withoutSet(again)).toEqual(withoutSet(config));
  });

  it.each<[why: string, value: object]>([
    [
      'a value that is set for the origin',
      { routes: [{ origin: 'http://o.test', fields: { toOrigin: { set: { Authorization: 'hunter2' } } } }] },
    ],
    [
      'a value that is added for the origin',
      { routes: [{ origin: 'http://o.test', fields: { toOrigin: { add: { 'X-Whatever': 'hunter2' } } } }] },
    ],
    [
      'a secret in the path of a check',
      {
        routes: [
          {
            origin: {
              url: 'http://o.test',
              alternatives: ['http://p.test'],
              health: { check: { path: '/health?token=hunter2' } },
            },
          },
        ],
      },
    ],
  ])('leaves out %s', (_why, value) => {
    const text = JSON.stringify(viewOf(value));
    expect(text).not.toContain('hunter2');
    expect(text).toContain('[redacted]');
  });

  it('shows the sources of secrets, not the secrets', () => {
    process.env['RANGEWAY_TEST_VIEW'] = 'hunter2';
    const view = viewOf({
      admin: { token: 'env:RANGEWAY_TEST_VIEW' },
      routes: [
        {
          origin: 'http://o.test',
          access: { basic: 'file:users' },
          fields: { toOrigin: { setSecret: { Authorization: 'env:RANGEWAY_TEST_VIEW' } } },
        },
      ],
    });
    delete process.env['RANGEWAY_TEST_VIEW'];
    expect(JSON.stringify(view)).not.toContain('hunter2');
    expect(view).toMatchObject({
      admin: { token: 'env:RANGEWAY_TEST_VIEW' },
      routes: [
        {
          access: { basic: 'file:/etc/rangeway/users' },
          fields: { toOrigin: { setSecret: { authorization: 'env:RANGEWAY_TEST_VIEW' } } },
        },
      ],
    });
  });

  it('writes addresses and modes as in a configuration file', () => {
    const view = viewOf({
      listen: [{ address: 'unix:/run/a.sock', mode: '0660' }, '[::1]:8080'],
      trustedProxies: ['10.0.0.0/8', '::1', 'unix'],
    });
    expect(view).toMatchObject({
      listen: [{ address: 'unix:/run/a.sock', mode: '0660' }, { address: '[::1]:8080' }],
      trustedProxies: ['10.0.0.0/8', '::1/128', 'unix'],
    });
  });

  it('leaves out values of unknown types', () => {
    const strange = { ...checked({ routes: [{ origin: 'http://o.test' }] }), pseudonym: Buffer.from('hunter2') };
    expect(JSON.stringify(describeConfig(strange as unknown as Config))).not.toMatch(/hunter2|104,117/);
  });
});
