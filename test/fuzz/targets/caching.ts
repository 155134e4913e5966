/** Fields that control caching, Vary, Accept-Encoding and structured fields. */

import type { Fields } from '../../../src/http/fields.ts';
import { normaliseAcceptEncoding } from '../../../src/semantics/accept.ts';
import {
  maxDeltaSeconds,
  parseCacheControl,
  parseRequestDirectives,
  readCacheControl,
} from '../../../src/semantics/cache-control.ts';
import { selectContentDigest, selectReprDigest } from '../../../src/semantics/digest.ts';
import { maxGroupLength, maxGroups, parseCacheGroups } from '../../../src/semantics/invalidation.ts';
import { parseDictionary, parseStrings } from '../../../src/semantics/structured-fields.ts';
import { formatVariant, matchesNominated, nominatedFields, varyNames } from '../../../src/semantics/vary.ts';
import { asciiUpperCase, fieldsOf, linesOf, must, mustEqual, type Target, valuesOf } from '../target.ts';

const restrictive = ['no-store', 'private', 'no-cache', 'must-revalidate', 'proxy-revalidate'];
const permissive = ['public', 'immutable', 'must-understand', 's-maxage=60', 'stale-if-error=9'];
const directiveWords = [...restrictive, ...permissive, 'max-age=', '="', '"', '\\', ', ', '=', '0', '2147483648', ' '];

const cacheControl: Target = {
  name: 'cache-control',
  seeds: [
    'max-age=60',
    'no-store',
    'private="set-cookie, x", max-age="5"',
    'public, s-maxage=9\nno-cache',
    'a="\\"',
    '=x',
    '\xdfno-store=',
  ],
  words: directiveWords,
  check(input) {
    const fields = linesOf('cache-control', input);
    const control = parseCacheControl(fields);
    const { maxAge, sMaxage, staleIfError, staleWhileRevalidate } = control;
    for (const seconds of [maxAge, sMaxage, staleIfError, staleWhileRevalidate]) {
      must(seconds === undefined || (Number.isInteger(seconds) && seconds >= 0), 'whole seconds');
      must((seconds ?? 0) <= maxDeltaSeconds, 'no more seconds than the maximum');
    }
    mustEqual(parseCacheControl([...fields].toReversed()), control, 'the order of lines has no effect');
    checkRestrictions(fields);
    // Only arguments are case-sensitive.
    const upperCase = parseCacheControl(linesOf('cache-control', asciiUpperCase(input)));
    for (const name of ['noStore', 'mustRevalidate', 'proxyRevalidate', 'public', 'immutable', 'maxAge'] as const) {
      mustEqual(upperCase[name], control[name], `the case of ${name} has no effect`);
    }
  },
};

/** A restriction in a line of its own applies, whatever the lines before and after it contain. */
function checkRestrictions(others: Fields): void {
  const flags = [
    ['No-Store', 'noStore'],
    ['MUST-REVALIDATE ', 'mustRevalidate'],
    [' proxy-revalidate,', 'proxyRevalidate'],
    [',private', 'private'],
    ['no-cache', 'noCache'],
    ['no-cache="x', 'noCache'],
  ] as const;
  for (const [text, flag] of flags) {
    mustEqual(parseCacheControl([...others, ['cache-control', text]])[flag], true, `${text} applies behind others`);
    mustEqual(parseCacheControl([['cache-control', text], ...others])[flag], true, `${text} applies before others`);
  }
  must(
    (parseCacheControl([...others, ['cache-control', 'max-age=0']]).maxAge ?? 0) === 0,
    'the shortest lifetime applies',
  );
}

const requestDirectives: Target = {
  name: 'request-directives',
  seeds: ['no-cache', 'max-age=0, min-fresh=5', 'max-stale', 'only-if-cached, max-stale=9', 'stale-if-error="4"'],
  words: ['no-cache', 'no-store', 'only-if-cached', 'max-stale', 'min-fresh=', 'max-age=', '"', ', ', '99999999999'],
  check(input) {
    const fields = linesOf('cache-control', input);
    const { minFresh, maxStale, maxAge } = parseRequestDirectives(fields);
    must(minFresh === undefined || minFresh >= 0, 'no negative seconds');
    must(maxAge === undefined || maxAge >= 0, 'no negative age');
    must(maxStale === undefined || maxStale === 'any' || maxStale >= 0, 'no negative staleness');
    for (const text of ['no-store', 'NO-CACHE', 'only-if-cached'] as const) {
      const parsed = parseRequestDirectives([...fields, ['cache-control', text]]);
      const flag = { 'no-store': parsed.noStore, 'NO-CACHE': parsed.noCache, 'only-if-cached': parsed.onlyIfCached }[
        text
      ];
      mustEqual(flag, true, `${text} applies behind others`);
    }
  },
};

const targetedFields = ['rangeway-cache-control', 'cdn-cache-control', 'surrogate-control'];

const targeted: Target = {
  name: 'targeted-fields',
  seeds: [
    'cdn-cache-control: max-age=60',
    'cdn-cache-control: no-store;a=1, private="x"',
    'surrogate-control: max-age=60+30;rangeway, no-store;other',
    'rangeway-cache-control: max-age=1.0, s-maxage=:YQ==:\ncache-control: no-store',
  ],
  words: [...targetedFields, ...directiveWords, ': ', '\n', ';rangeway', '?0', '?1', '%"x"', '(a b)', '@1', '+30'],
  check(input) {
    const fields = fieldsOf(input);
    const control = readCacheControl(fields, { targetedFields });
    must(['cache-control', ...targetedFields].includes(control.field), 'the directives come from one of the fields');
    if (control.field !== 'cache-control') {
      must(
        fields.some(([name]) => name === control.field),
        'the directives come from a field that is present',
      );
    } else {
      const plain = readCacheControl(fields, { targetedFields: [] });
      mustEqual(control, plain, 'Cache-Control counts where no targeted field applies');
      const withNoStore = readCacheControl([...fields, ['cache-control', 'no-store']], { targetedFields });
      mustEqual(withNoStore.noStore, true, 'a targeted field that does not apply does not lift no-store');
    }
    const others = fields.filter(([name]) => name !== targetedFields[0]);
    const first = readCacheControl([...others, ['rangeway-cache-control', 'no-store']], { targetedFields });
    mustEqual([first.field, first.noStore], ['rangeway-cache-control', true], 'the first field that applies decides');
  },
};

const vary: Target = {
  name: 'vary',
  seeds: [
    'vary: accept\naccept: a/b\naccept: c',
    'vary: Accept-Encoding, X\naccept-encoding: gzip;q=0.5, br\nx: 1',
    'vary: *',
    'vary: accept-language\naccept-language: de, en;q=0.1',
  ],
  words: ['vary: ', 'accept', 'accept-encoding', 'accept-language', '*', ', ', '\n', ';q=0', ': ', 'gzip', 'x'],
  check(input) {
    const fields = fieldsOf(input);
    const names = varyNames(fields);
    mustEqual(names, [...new Set(names)].sort(), 'names are sorted, and each occurs once');
    must(
      names.every((name) => name === name.toLowerCase() && !name.includes(',')),
      'names are in lower case',
    );
    const nominated = nominatedFields(fields, fields);
    mustEqual(
      matchesNominated(nominated, fields),
      !names.includes('*'),
      'the request that selected a response selects it again',
    );
    // Another request matches exactly where its variant has the same name.
    for (const other of [
      fields.toReversed(),
      fields.slice(1),
      fields.map(([name, value]) => [name, `${value}x`] as const),
    ]) {
      const isSame = formatVariant(nominatedFields(fields, other)) === formatVariant(nominated);
      if (!names.includes('*'))
        mustEqual(
          matchesNominated(nominated, other),
          isSame,
          'requests match exactly where their variants have the same name',
        );
    }
  },
};

const acceptEncoding: Target = {
  name: 'accept-encoding',
  seeds: ['gzip', 'br;q=1.0, gzip;q=0', '*;q=0.1', 'identity', 'x-gzip, zstd ; q=0.001'],
  words: ['gzip', 'br', 'zstd', 'identity', '*', ';q=', '0', '1.000', '0.000', ', ', 'deflate'],
  check(input) {
    const normal = normaliseAcceptEncoding(input);
    mustEqual(normaliseAcceptEncoding(normal), normal, 'the normal form of a normal form is itself');
    must(
      /^(?:identity|(?:zstd|br|gzip)(?:, (?:br|gzip)){0,2})$/.test(normal),
      'the normal form is one of eight values',
    );
    for (const coding of ['gzip', 'br', 'zstd']) {
      const refused = normaliseAcceptEncoding(`${input}, ${coding};q=0`);
      must(!refused.includes(coding), 'a refused coding is not accepted');
    }
  },
};

const structured: Target = {
  name: 'structured-fields',
  seeds: ['a=1, b="x";p=2, c=?0, d', '"g1", "g2";x', 'sha-256=:AAAA:', 'a=1.5, b=(1 2);q', 'd=@1, e=%"f%c3%bc"'],
  words: ['a=', '"', ':', '?1', '(', ')', ';', ', ', '1.0', '-', '@', '%"', '999999999999999', 'sha-256=:'],
  check(input) {
    const lines = valuesOf(input);
    const members = parseDictionary(lines);
    for (const [key, value] of members ?? []) {
      must(/^[a-z*][a-z0-9_.*-]*$/.test(key), 'a key is valid');
      must(value.kind !== 'integer' || Math.abs(value.value) < 1e15, 'an integer has at most fifteen digits');
    }
    if (lines.length === 1 && members !== undefined) {
      mustEqual(
        parseDictionary([`zz=?1, ${lines[0]}`])?.has('zz') ?? true,
        true,
        'a further member does not make the others invalid',
      );
    }
    for (const text of parseStrings(lines) ?? [])
      must(/^[\x20-\x7e]*$/.test(text), 'strings have visible characters only');
    const groups = parseCacheGroups(lines.map((line) => ['cache-groups', line]));
    must(
      groups.length <= maxGroups && groups.every((group) => group.length <= maxGroupLength),
      'the number and length of groups are bounded',
    );
    for (const digest of [
      selectContentDigest(lines.map((line) => ['content-digest', line])),
      selectReprDigest({ status: 200, fields: lines.map((line) => ['repr-digest', line]) }),
    ]) {
      must(
        digest === undefined || /^(?:[0-9a-f]{64}|[0-9a-f]{128})$/.test(digest.hex),
        'a digest has the length of its algorithm',
      );
    }
  },
};

export const cachingTargets: readonly Target[] = [
  cacheControl,
  requestDirectives,
  targeted,
  vary,
  acceptEncoding,
  structured,
];
