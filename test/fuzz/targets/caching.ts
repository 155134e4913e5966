/** What responses and requests say of caching, and what variants are told apart by. */

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
import { fieldsOf, linesOf, must, mustEqual, type Target, valuesOf } from '../target.ts';

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
  ],
  words: directiveWords,
  check(input) {
    const fields = linesOf('cache-control', input);
    const control = parseCacheControl(fields);
    const { maxAge, sMaxage, staleIfError, staleWhileRevalidate } = control;
    for (const seconds of [maxAge, sMaxage, staleIfError, staleWhileRevalidate]) {
      must(seconds === undefined || (Number.isInteger(seconds) && seconds >= 0), 'whole seconds');
      must((seconds ?? 0) <= maxDeltaSeconds, 'no more seconds than count');
    }
    mustEqual(parseCacheControl([...fields].toReversed()), control, 'the order of lines means nothing');
    checkRestrictions(fields);
    // Letter case counts in arguments only.
    const shouted = parseCacheControl(linesOf('cache-control', input.toUpperCase()));
    for (const name of ['noStore', 'mustRevalidate', 'proxyRevalidate', 'public', 'immutable', 'maxAge'] as const) {
      mustEqual(shouted[name], control[name], `the case of ${name} means nothing`);
    }
  },
};

/** A restriction in a line of its own holds whatever stands in the others, before it or after it. */
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
    mustEqual(parseCacheControl([...others, ['cache-control', text]])[flag], true, `${text} behind others`);
    mustEqual(parseCacheControl([['cache-control', text], ...others])[flag], true, `${text} before others`);
  }
  must((parseCacheControl([...others, ['cache-control', 'max-age=0']]).maxAge ?? 0) === 0, 'the shortest lifetime');
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
      const told = parseRequestDirectives([...fields, ['cache-control', text]]);
      const flag = { 'no-store': told.noStore, 'NO-CACHE': told.noCache, 'only-if-cached': told.onlyIfCached }[text];
      mustEqual(flag, true, `${text} behind others`);
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
    must(['cache-control', ...targetedFields].includes(control.field), 'it was read from one of the fields');
    if (control.field !== 'cache-control') {
      must(
        fields.some(([name]) => name === control.field),
        'it was read from one that is there',
      );
    } else {
      const plain = readCacheControl(fields, { targetedFields: [] });
      mustEqual(control, plain, 'where none applies, Cache-Control counts');
      const told = readCacheControl([...fields, ['cache-control', 'no-store']], { targetedFields });
      mustEqual(told.noStore, true, 'no field that does not apply takes no-store away');
    }
    const others = fields.filter(([name]) => name !== targetedFields[0]);
    const first = readCacheControl([...others, ['rangeway-cache-control', 'no-store']], { targetedFields });
    mustEqual([first.field, first.noStore], ['rangeway-cache-control', true], 'the first that applies decides');
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
    mustEqual(names, [...new Set(names)].sort(), 'sorted, each once');
    must(
      names.every((name) => name === name.toLowerCase() && !name.includes(',')),
      'names in lower case',
    );
    const nominated = nominatedFields(fields, fields);
    mustEqual(matchesNominated(nominated, fields), !names.includes('*'), 'what selected a response selects it again');
    // Another request matches where it has the same name, and only there.
    for (const other of [
      fields.toReversed(),
      fields.slice(1),
      fields.map(([name, value]) => [name, `${value}x`] as const),
    ]) {
      const isSame = formatVariant(nominatedFields(fields, other)) === formatVariant(nominated);
      if (!names.includes('*')) mustEqual(matchesNominated(nominated, other), isSame, 'a variant has one name');
    }
  },
};

const acceptEncoding: Target = {
  name: 'accept-encoding',
  seeds: ['gzip', 'br;q=1.0, gzip;q=0', '*;q=0.1', 'identity', 'x-gzip, zstd ; q=0.001'],
  words: ['gzip', 'br', 'zstd', 'identity', '*', ';q=', '0', '1.000', '0.000', ', ', 'deflate'],
  check(input) {
    const normal = normaliseAcceptEncoding(input);
    mustEqual(normaliseAcceptEncoding(normal), normal, 'normal twice is normal once');
    must(/^(?:identity|(?:zstd|br|gzip)(?:, (?:br|gzip)){0,2})$/.test(normal), 'one of eight values');
    for (const coding of ['gzip', 'br', 'zstd']) {
      const refused = normaliseAcceptEncoding(`${input}, ${coding};q=0`);
      must(!refused.includes(coding), 'what is refused is not asked for');
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
      must(/^[a-z*][a-z0-9_.*-]*$/.test(key), 'a key');
      must(value.kind !== 'integer' || Math.abs(value.value) < 1e15, 'an integer of fifteen digits');
    }
    if (lines.length === 1 && members !== undefined) {
      mustEqual(parseDictionary([`zz=?1, ${lines[0]}`])?.has('zz') ?? true, true, 'a member more leaves the others');
    }
    for (const text of parseStrings(lines) ?? []) must(/^[\x20-\x7e]*$/.test(text), 'strings of visible characters');
    const groups = parseCacheGroups(lines.map((line) => ['cache-groups', line]));
    must(groups.length <= maxGroups && groups.every((group) => group.length <= maxGroupLength), 'bounded groups');
    for (const digest of [
      selectContentDigest(lines.map((line) => ['content-digest', line])),
      selectReprDigest({ status: 200, fields: lines.map((line) => ['repr-digest', line]) }),
    ]) {
      must(digest === undefined || /^(?:[0-9a-f]{64}|[0-9a-f]{128})$/.test(digest.hex), 'a digest of its length');
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
