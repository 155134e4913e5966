/** Targets, authorities, framing, queries, cookies and negotiated fields of requests. */

import { isAuthority, readRequestFraming, readTarget } from '../../../src/listener/receive.ts';
import { readFraming } from '../../../src/origin/exchange.ts';
import { cacheKey } from '../../../src/routing/cache-key.ts';
import {
  hasHiddenDotDot,
  mayLeavePrefix,
  normaliseAuthority,
  normaliseTarget,
  pathReadings,
  splitTarget,
} from '../../../src/routing/target.ts';
import { parseAccept, weightOf } from '../../../src/semantics/accept.ts';
import { parseCookies } from '../../../src/semantics/cookies.ts';
import { hasParameter, selectParameters } from '../../../src/semantics/query.ts';
import { normalValue } from '../../../src/semantics/vary.ts';
import { asciiUpperCase, fieldsOf, linesOf, must, mustEqual, type Target, valuesOf } from '../target.ts';

const target: Target = {
  name: 'target',
  seeds: [
    '/a/b/../c?x=1',
    '/%2e%2E/%41%2f',
    '/a/./b//c/..',
    '*',
    '/%%341',
    'http://h:80/p?q',
    '/..;/a',
    '/a%5c..%5cb',
    '/a//../../b',
    '/a%2fb/../../c',
    '/?',
  ],
  words: ['/', '..', '/../', '%2e', '%2F', '%5C', '%', '%25', '?', '#', 'http://', '@', ':80', ';', '\\', '%00', '//'],
  check(input) {
    const { path, query } = normaliseTarget(input);
    mustEqual(normaliseTarget(`${path}${query}`), { path, query }, 'the normal form of a normal form is itself');
    if (input.startsWith('/')) {
      must(path.startsWith('/') && !/\/\.\.?(?:\/|$)/.test(path), 'the normal form has no dot segment');
      must(!/%2e/i.test(path) || /%(?![0-9A-F]{2})/.test(path), 'no dot is percent-encoded');
      must(!path.includes('?'), 'the query begins at the first question mark');
      checkReadings(splitTarget(input).path);
    }
    for (const method of ['GET', 'OPTIONS']) {
      const reading = readTarget(method, input, 'http');
      if (reading.kind === 'refused') continue;
      must(
        reading.target.startsWith('/') || (reading.target === '*' && method === 'OPTIONS'),
        'the target is in origin-form, or * for OPTIONS',
      );
      must(!/[\0-\x20\x7f-\uffff#]/.test(reading.target), 'no character splits the request line');
      if (reading.authority !== undefined) must(isAuthority(reading.authority), 'the authority is valid');
    }
  },
};

/** An accepted path stays below the root, however an origin decodes, splits and normalises it. */
function checkReadings(path: string): void {
  must(pathReadings(path)[0] === normaliseTarget(path).path, 'the first reading is the normal form');
  if (hasHiddenDotDot(path) || mayLeavePrefix(path, '/')) return;
  const decoded = path
    .replace(/%2e/gi, '.')
    .replace(/%2f/gi, '/')
    .replace(/%5c|\\/gi, '/');
  for (const text of [path, decoded, decoded.replace(/(?:;|%3b)[^/]*/gi, ''), decoded.replace(/\/{2,}/g, '/')]) {
    let depth = 0;
    for (const segment of text.split('/').slice(1)) {
      if (segment === '..') depth -= 1;
      else if (segment !== '.') depth += 1;
      must(depth >= 0, 'no reading of the path leaves the root');
    }
  }
}

const authority: Target = {
  name: 'authority',
  seeds: [
    'example.org',
    'EXAMPLE.org:80',
    '[::1]:8080',
    '[2001:DB8::1]',
    'a:0',
    'user@host',
    'a%41b',
    '192.0.2.1:99999',
  ],
  words: [':', '80', '443', '[', ']', '::1', '.', '@', '%41', 'xn--', '65536', '_', '0x7f'],
  check(input) {
    for (const scheme of ['http', 'https'] as const) {
      const normal = normaliseAuthority(input, scheme);
      if (normal === undefined) continue;
      mustEqual(normaliseAuthority(normal, scheme), normal, 'the normal form of a normal form is itself');
      mustEqual(normaliseAuthority(asciiUpperCase(input), scheme), normal, 'case has no effect');
      must(isAuthority(normal), 'a listener accepts the normal form');
      must(!/[\s/@?#\\%]/.test(normal), 'no character ends the authority early');
      mustEqual(
        URL.parse(`${scheme}://${normal}/x`)?.pathname ?? '/x',
        '/x',
        'a URL parser ends the authority at the same place',
      );
    }
  },
};

const keys: Target = {
  name: 'cache-key',
  seeds: ['h\n/a\n?x\nh\n/a?x\n', 'h\n/a b\n\nh /a\nb\n', 'a.example\n/\n?\na.example\n/?\n'],
  words: ['\n', ' ', '/', '?', 'http://', 'a.example', '%20'],
  check(input) {
    // Parts as they are after routing: visible characters only, and the query with its question mark.
    const [a = '', p = '', q = '', b = '', r = '', s = ''] = valuesOf(input).map((part) => part.replace(/[^!-~]/g, ''));
    const [one, other] = [
      { authority: a.replace(/[/?]/g, ''), path: `/${p.replace(/\?/g, '')}`, query: q === '' ? '' : `?${q}` },
      { authority: b.replace(/[/?]/g, ''), path: `/${r.replace(/\?/g, '')}`, query: s === '' ? '' : `?${s}` },
    ];
    for (const scheme of ['http', 'https'] as const) {
      const keyOf = (parts: typeof one) => cacheKey({ originScope: 'http://origin.example', scheme, ...parts });
      const isSame = one.authority === other.authority && one.path === other.path && one.query === other.query;
      mustEqual(
        keyOf(one) === keyOf(other),
        isSame,
        'two targets have the same key exactly where all parts are the same',
      );
    }
  },
};

const requestFraming: Target = {
  name: 'request-framing',
  seeds: [
    'content-length: 5',
    'transfer-encoding: chunked',
    'content-length: 1\ntransfer-encoding: chunked',
    'content_length: 3',
  ],
  words: [
    'content-length',
    'transfer-encoding',
    ': ',
    '\n',
    'chunked',
    'gzip, chunked',
    '+5',
    '0x5',
    '5, 5',
    '_',
    '9007199254740992',
  ],
  check(input) {
    const fields = fieldsOf(input);
    const values = (name: string) => fields.filter(([each]) => each === name).map(([, value]) => value);
    const lengths = values('content-length');
    const codings = values('transfer-encoding');
    for (const version of ['1.0', '1.1', '2']) {
      const framing = readRequestFraming(version, fields);
      if (framing.kind === 'none')
        must(lengths.length + codings.length === 0, 'a request with framing fields is not taken for one without body');
      if (framing.kind === 'length') {
        mustEqual([lengths.length, codings.length], [1, 0], 'a length comes from one Content-Length alone');
        must(
          /^[0-9]+$/.test(lengths[0] ?? '') && BigInt(lengths[0] ?? '') === BigInt(framing.sizeBytes),
          'the length is the number of the field',
        );
      }
      if (framing.kind === 'chunked')
        mustEqual(
          [lengths, codings.map((each) => each.toLowerCase())],
          [[], ['chunked']],
          'chunked comes from one Transfer-Encoding alone',
        );
    }
    const response = readFraming('GET', 200, fields, '1.1');
    if (response.kind === 'framed' && response.framing === 'length') {
      mustEqual(
        [lengths.length, codings.length],
        [1, 0],
        'the length of a response comes from one Content-Length alone',
      );
    }
    must(
      response.kind === 'ill_framed' || lengths.length + codings.length <= 1,
      'a response with two framing fields is refused',
    );
  },
};

const query: Target = {
  name: 'query',
  seeds: ['?a=1&b=2', '?utm_source=x&id=1', '?%61=1&a;b=2', '?&&=&a', '?a=1;utm_x=2'],
  words: ['a', 'utm_', '&', ';', '=', '%61', '%', '?', '%zz', 'b', '%C3%BC'],
  check(input) {
    const text = input === '' || input.startsWith('?') ? input : `?${input}`;
    const all = text.slice(1).split('&');
    for (const selection of [{ keep: ['a', 'utm_*'] }, { ignore: ['a', 'utm_*'] }, 'all', 'none'] as const) {
      const kept = selectParameters(text, selection);
      mustEqual(selectParameters(kept, selection), kept, 'a second selection changes nothing');
      must(kept === '' || kept.startsWith('?'), 'the result is a query, or empty');
      const rest = kept === '' ? [] : kept.slice(1).split('&');
      let at = 0;
      for (const each of all) if (each === rest[at]) at += 1;
      mustEqual(at, rest.length, 'parameters are unchanged and in their order');
    }
    const ignored = selectParameters(text, { ignore: ['a'] });
    must(
      !ignored
        .slice(1)
        .split('&')
        .some((each) => !each.includes(';') && (each === 'a' || each.startsWith('a='))),
      'an ignored parameter is left out',
    );
    mustEqual(
      hasParameter(`${text === '' ? '?' : `${text}&`}zz=1`, ['zz']),
      true,
      'a parameter that is present is found',
    );
  },
};

const cookies: Target = {
  name: 'cookies',
  seeds: ['a=1; b=2', 'session="x;y"; z', '=; ;;a==b', 'a\nb=1'],
  words: ['session=', '; ', '=', '"', ',', '\n', ' ', '\t'],
  check(input) {
    const found = parseCookies(linesOf('cookie', input));
    for (const { name, pair } of found) {
      must(!pair.includes(';') && pair.startsWith(name), 'a pair is one cookie, and begins with its name');
      mustEqual(parseCookies([['cookie', pair]]), [{ name, pair }], 'a parsed cookie is parsed as the same');
    }
    const more = parseCookies([...linesOf('cookie', input), ['cookie', 'zz=1']]);
    mustEqual(more, [...found, { name: 'zz', pair: 'zz=1' }], 'no cookie hides those that follow');
  },
};

const negotiated: Target = {
  name: 'negotiated-fields',
  seeds: ['text/html, application/json;q=0.5', 'de, en;q=0.1, *;q=0', 'a/b;x="c,d";q=1', '*/*', 'gzip ; q=0.10,,br'],
  words: ['text/html', 'application/problem+json', '*/*', ';q=', '0.5', '1', ', ', '"', ';', '=', '*'],
  check(input) {
    const accepted = parseAccept(input);
    for (const [type, weight] of accepted)
      must(
        type === type.toLowerCase() && weight >= 0 && weight <= 1,
        'a type is in lower case, and its weight from 0 to 1',
      );
    for (const type of ['text/html', 'application/problem+json']) {
      must(weightOf(type, accepted) >= 0 && weightOf(type, accepted) <= 1, 'the weight of a type is from 0 to 1');
      const preferred = parseAccept(`${input}, ${type};q=1`);
      mustEqual(weightOf(type, preferred), 1, 'a type with q=1 has the weight 1');
    }
    for (const name of [
      'accept',
      'accept-language',
      'accept-encoding',
      'accept-charset',
      'cookie',
      'user-agent',
      'x-any',
    ]) {
      const normal = normalValue(name, input);
      mustEqual(normalValue(name, normal), normal, 'the normal form of a normal form is itself');
      must(
        input.trim() === '' ||
          name.startsWith('accept') ||
          normal.replace(/[\s,]/g, '') === input.replace(/[\s,]/g, ''),
        'only white space and commas change',
      );
    }
  },
};

export const requestTargets: readonly Target[] = [target, authority, keys, requestFraming, query, cookies, negotiated];
