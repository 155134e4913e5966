import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  deviceToken,
  parseSurrogateControl,
  surrogateCapability,
  surrogateControlField,
} from '../../src/semantics/cache-control.ts';
import { inShort } from '../support/values/directives-in-short.ts';

describe('parseSurrogateControl', () => {
  const rows: readonly (readonly [value: string, directives: readonly string[] | undefined])[] = [
    ['max-age=3600', ['max-age=3600']],
    ['MaX-aGe=3600', ['max-age=3600']],
    ['max-age=0', ['max-age=0']],
    ['max-age=99999999999', ['max-age=99999999999']],
    ['max-age="60"', ['max-age="60"']],
    ['no-store', ['no-store']],
    ['No-Store, max-age=60', ['no-store', 'max-age=60']],
    ['foobar, max-age=3600', ['max-age=3600']],
    ['max-age=60, max-age=5', ['max-age=60', 'max-age=5']],
    // A freshness extension.
    ['max-age=3600+600', ['max-age=3600', 'stale-while-revalidate=600']],
    ['max-age=0+0', ['max-age=0', 'stale-while-revalidate=0']],
    ['max-age=86400, stale-while-revalidate=60', ['max-age=86400', 'stale-while-revalidate=60']],
    ['max-age=60, stale-if-error=5', ['max-age=60', 'stale-if-error=5']],
    // Directives about processing are ignored.
    ['max-age=60, content="ESI/1.0 x/y, no-store"', ['max-age=60']],
    ['content="ESI/1.0"', undefined],
    ['content="ESI/1.0";rangeway, no-store', ['no-store']],
    // This proxy is the one next to the origin, so no-store-remote does not concern it.
    ['no-store-remote', undefined],
    ['no-store-remote, max-age=60', ['max-age=60']],
    // Directives for this proxy, for other proxies, and for all.
    ['max-age=3600;rangeway', ['max-age=3600']],
    ['max-age=3600 ; rangeway', ['max-age=3600']],
    ['max-age=60+30;rangeway', ['max-age=60', 'stale-while-revalidate=30']],
    ['max-age=3600;not-for-you', undefined],
    ['max-age=3600;Rangeway', undefined],
    ['max-age=3600;', ['max-age=3600']],
    ['no-store;not-for-you, max-age=60', ['max-age=60']],
    ['max-age=60;abc;rangeway', ['max-age=60']],
    ['max-age=60, max-age=3600;rangeway', ['max-age=3600']],
    ['max-age=60, no-store;rangeway', ['no-store']],
    ['no-store, max-age=60;rangeway', ['max-age=60']],
    ['no-store;rangeway, max-age=60;rangeway', ['no-store', 'max-age=60']],
    // Malformed directives restrict.
    ['max-age =100', ['!max-age']],
    ['max-age= 100', ['!max-age']],
    ['max-age', ['max-age']],
    ['max-age=', ['!max-age']],
    ['max-age=abc', ['max-age=abc']],
    ['max-age=60+', ['max-age=60+']],
    ['max-age=+60', ['max-age=+60']],
    ['max-age=60 no-store', ['!max-age', '!no-store']],
    ['no-store=5', ['no-store=5']],
    ['x="never closed, no-store', ['no-store']],
    // Without a directive about storing or lifetime the field does not apply.
    ['', undefined],
    ['foo', undefined],
    ['stale-while-revalidate=60', undefined],
    ['private', undefined],
  ];
  it.each(rows)('%s', (value, directives) => {
    expect(parseSurrogateControl([value], ['rangeway'])?.map(inShort)).toEqual(directives);
  });

  it('reads all lines together', () => {
    expect(parseSurrogateControl(['max-age=60', 'no-store;abc'], ['rangeway', 'abc'])?.map(inShort)).toEqual([
      'no-store',
    ]);
    expect(parseSurrogateControl([], ['rangeway'])).toBeUndefined();
  });

  it('never throws, and applies only with max-age or no-store', () => {
    const parts = ['max-age', 'no-store', '=', '60', '+', ',', ';', 'rangeway', ' ', '"', '\\', 'content', 'abc'];
    const near = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((texts) => texts.join(''));
    fc.assert(
      fc.property(fc.array(fc.oneof(near, fc.string({ unit: 'binary' })), { maxLength: 3 }), (lines) => {
        const directives = parseSurrogateControl(lines, ['rangeway']);
        if (directives === undefined) return;
        expect(directives.map(({ name }) => name)).toEqual(
          expect.arrayContaining([expect.stringMatching(/^(max-age|no-store)$/)]),
        );
      }),
      { numRuns: 2000 },
    );
  });
});

it('announces the name under which origins address it', () => {
  expect(surrogateCapability).toBe('rangeway="Surrogate/1.0"');
  expect(surrogateCapability.split('=')[0]).toBe(deviceToken);
  expect(surrogateControlField).toBe(surrogateControlField.toLowerCase());
});
