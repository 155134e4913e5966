import { describe, expect, it } from 'vitest';
import { parseListenPlace } from '../../src/config/address.ts';
import { findOwnListener } from '../../src/config/conflicts.ts';
import { checkConfig } from '../../src/config/load.ts';

describe('findOwnListener', () => {
  it.each<[origin: string, listen: string, isOwn: boolean]>([
    ['http://127.0.0.1:8080', '8080', true],
    ['http://127.0.0.1:8080/base', '127.0.0.1:8080', true],
    ['https://127.0.0.1:8080', '127.0.0.1:8080', true],
    ['http://localhost:8080', '127.0.0.1:8080', true],
    ['http://localhost:8080', '[::1]:8080', true],
    ['http://127.0.0.1:8080', 'localhost:8080', true],
    ['http://[::1]:8080', '[::1]:8080', true],
    ['http://127.0.0.1:8080', '0.0.0.0:8080', true],
    ['http://127.9.9.9:8080', '0.0.0.0:8080', true],
    ['http://[::1]:8080', '[::]:8080', true],
    ['http://127.0.0.1:8080', '[::]:8080', true],
    ['http://127.0.0.1', '0.0.0.0:80', true],
    ['https://localhost', '0.0.0.0:443', true],
    ['http://Files.example:8080', 'files.example:8080', true],
    ['unix:/run/a.sock', 'unix:/run/../run/a.sock', true],
    ['http://127.0.0.1:8081', '8080', false],
    ['http://127.0.0.2:8080', '127.0.0.1:8080', false],
    ['http://[::1]:8080', '127.0.0.1:8080', false],
    ['http://192.0.2.1:8080', '0.0.0.0:8080', false],
    ['http://files.example:8080', '127.0.0.1:8080', false],
    ['http://127.0.0.1:8080', '127.0.0.1:0', false],
    ['http://127.0.0.1:8080', 'systemd', false],
    ['http://127.0.0.1:8080', 'unix:/run/a.sock', false],
    ['unix:/run/b.sock', 'unix:/run/a.sock', false],
  ])('%s behind a listener on %s: %s', (origin, listen, isOwn) => {
    const place = parseListenPlace(listen);
    expect(findOwnListener(origin, place === undefined ? [] : [place])).toBe(isOwn ? 0 : -1);
  });
});

describe('a configuration whose origin is Rangeway itself', () => {
  it('is refused, with the listener named', () => {
    const checked = checkConfig(
      {
        listen: ['127.0.0.1:9000', '0.0.0.0:8080'],
        routes: [{ origin: 'http://example.org' }, { match: { pathPrefix: '/a' }, origin: 'http://localhost:8080' }],
      },
      '.',
    );
    expect(checked.kind === 'invalid' ? checked.problems : []).toEqual([
      {
        path: 'routes[1].origin.url',
        message:
          'is listen[1], 0.0.0.0:8080: Rangeway would be its own origin; give the address of the server behind it',
      },
    ]);
  });

  it('is refused for an alternative, too', () => {
    const origin = { url: 'http://127.0.0.1:3000', alternatives: ['http://127.0.0.1:8080'] };
    const checked = checkConfig({ routes: [{ origin }] }, '.');
    expect(checked.kind === 'invalid' ? checked.problems.map(({ path }) => path) : []).toEqual([
      'routes[0].origin.alternatives[0]',
    ]);
  });
});
