import { describe, expect, it } from 'vitest';
import { createNameChoice } from '../../src/listener/accept/tls.ts';

describe('createNameChoice', () => {
  const choose = createNameChoice([
    { names: ['example.org', '*.example.org'], value: 'first' },
    { names: ['www.example.org', '*.example.org', 'example.org'], value: 'second' },
    { names: ['*.a.example.org', 'localhost'], value: 'third' },
    { names: [], value: 'fourth' },
  ]);

  it.each<[name: string, value: string | undefined]>([
    ['example.org', 'first'],
    ['Example.ORG', 'first'],
    ['example.org.', 'first'],
    ['www.example.org', 'second'],
    ['ftp.example.org', 'first'],
    ['a.example.org', 'first'],
    ['b.a.example.org', 'third'],
    ['c.b.a.example.org', undefined],
    ['localhost', 'third'],
    ['.example.org', undefined],
    ['*.example.org', undefined],
    ['org', undefined],
    ['example.com', undefined],
    ['', undefined],
    ['192.0.2.1', undefined],
  ])('%j', (name, value) => expect(choose(name)).toBe(value));
});
