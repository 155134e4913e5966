/** The option `origin` of a route: accepted values, and the messages for others. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';

/** Returns the checked origin, or one line for each problem with its path relative to `origin`. */
function originOf(origin: unknown): unknown {
  const checked = checkConfig({ routes: [{ origin }] }, '/etc/rangeway');
  if (checked.kind === 'ok') return checked.config.routes[0]?.origin;
  return checked.problems.map(({ path, message }) => `${path.replace(/^routes\[0\]\.origin\.?/, '')}: ${message}`);
}

const https = { url: 'https://a.test' };

describe('an origin', () => {
  it.each<[origin: unknown, want: object]>([
    ['unix:/run/app.sock', { url: 'unix:/run/app.sock', alternatives: [] }],
    [
      { url: 'http://a.test', alternatives: ['HTTP://B.test:80', 'unix:/run/b.sock', 'https://c.test/'] },
      { alternatives: ['http://b.test/', 'unix:/run/b.sock', 'https://c.test/'] },
    ],
    [{ url: 'http://a.test/x/', alternatives: ['http://b.test/x'] }, { alternatives: ['http://b.test/x'] }],
    [
      { ...https, certFile: 'c.pem', keyFile: '/k.pem' },
      { certFile: '/etc/rangeway/c.pem', keyFile: '/k.pem' },
    ],
    [{ url: 'http://a.test', alternatives: ['https://b.test'], protocol: 'http2' }, { protocol: 'http2' }],
    [https, { retries: { attempts: 2, budgetPercent: 20 }, health: { failures: 3, restSeconds: 10 } }],
    [
      { ...https, alternatives: ['http://b.test'], health: { check: { path: '/up?x' } } },
      {
        health: {
          failures: 3,
          restSeconds: 10,
          check: { path: '/up?x', intervalSeconds: 10, timeoutSeconds: 5, passes: 2 },
        },
      },
    ],
  ])('%j', (origin, want) => {
    expect(originOf(origin)).toMatchObject(want);
  });

  const notASocket = 'expected the path of a socket such as "unix:/run/app.sock"';
  it.each<[origin: unknown, ...problems: string[]]>([
    ['unix:run/app.sock', ': expected an absolute path after "unix:"'],
    ['unix:', ': expected an absolute path after "unix:"'],
    ['unix:///run/app.sock', ': expected one slash; did you mean "unix:/run/app.sock"?'],
    ['unix:/run/', `: ${notASocket}`],
    ['unix:/run/a b.sock', `: ${notASocket}`],
    ['unix:/run/a.sock?x', `: ${notASocket}`],
    ['unix:/run/a.sock#x', `: ${notASocket}`],
    ['unix:/run/%41.sock', `: ${notASocket}`],
    ['unix:/run/../a.sock', `: ${notASocket}`],
    ['unix:/run/caf\xe9.sock', `: ${notASocket}`],
    [`unix:/${'a'.repeat(103)}`, ": a socket's path has at most 103 bytes"],
    ['http://unix:/run/app.sock', ': expected the URL of an origin; did you mean "unix:/run/app.sock"?'],
    ['http://unix:/run/app.sock:/base', ': expected the URL of an origin; did you mean "unix:/run/app.sock"?'],
    ['/run/app.sock', ': expected the URL of an origin; did you mean "unix:/run/app.sock"?'],
    [{ ...https, alternatives: ['https://A.test:443/'] }, 'alternatives[0]: is the same as url'],
    [
      { ...https, alternatives: ['http://b.test', 'http://b.test:80/'] },
      'alternatives[1]: "http://b.test/" is named twice',
    ],
    [
      { ...https, alternatives: ['http://b.test', 'http://c.test/x'] },
      'alternatives[1]: must have the same path as url',
    ],
    [{ url: 'http://a.test/x', alternatives: ['unix:/run/b'] }, 'alternatives[0]: must have the same path as url'],
    [{ url: 'unix:/run/a', protocol: 'http2' }, 'protocol: "http2" applies to an https:// origin only'],
    [
      { url: 'http://a.test', certFile: 'c', keyFile: 'k' },
      'certFile: applies to an https:// origin only',
      'keyFile: applies to an https:// origin only',
    ],
    [{ ...https, certFile: 'c' }, 'keyFile: is required with certFile'],
    [{ ...https, keyFile: 'k' }, 'certFile: is required with keyFile'],
    [
      { ...https, health: { check: { path: '/' } } },
      'health.check: applies with alternatives only: a lone origin is always asked',
    ],
    [
      { ...https, alternatives: ['http://b.test'], health: { check: { path: 'up' } } },
      'health.check.path: expected a path that begins with "/", found "up"',
    ],
  ])('%j is refused', (origin, ...problems) => {
    expect(originOf(origin)).toEqual(problems);
  });
});
