/** The configuration: its JSON text, its options, and the formats of their values. */

import { readFileSync } from 'node:fs';
import {
  formatListenPlace,
  isHostField,
  isHostName,
  parseAddressRange,
  parseListenPlace,
} from '../../../src/config/address.ts';
import { parseDuration, parseSize } from '../../../src/config/amounts.ts';
import { checkConfig, findJsonFault, parseConfigText } from '../../../src/config/load.ts';
import { createPeerList } from '../../../src/guard/client.ts';
import { must, mustEqual, type Target } from '../target.ts';

const example: unknown = JSON.parse(readFileSync(new URL('../../../config.example.json', import.meta.url), 'utf8'));

const json: Target = {
  name: 'json-fault',
  seeds: [
    '{"a": [1, -2.5e3, "x\\u00e9\\n", true, null]}',
    '[]',
    '{"a":1,"a":2}',
    '"',
    '[1,]',
    '{"a" 1}',
    '\ufeff{}',
    '// a\n{"a": 1, /* b */}',
  ],
  words: [
    '{',
    '}',
    '[',
    ']',
    '"',
    ':',
    ',',
    'true',
    'null',
    '\\u00',
    '\\"',
    '1e5',
    '-',
    '0',
    '.5',
    '"a":',
    '//',
    '/*',
    '*/',
  ],
  check(input) {
    const fault = findJsonFault(input);
    const parsed = parsedJson(input);
    const mayHaveExtras = /\/\/|\/\*|,\s*[\]}]/.test(input);
    if (parsed === undefined && !mayHaveExtras) must(fault !== undefined, 'a text that is no JSON has a fault');
    // Only for names that occur twice and for deep nesting it is stricter than JSON.
    const isStricter = /twice|deep|nest/i.test(fault?.message ?? '');
    if (parsed !== undefined) must(fault === undefined || isStricter, 'a text that is JSON has no fault');
    if (fault !== undefined) {
      const line = input.split('\n')[fault.line - 1];
      must(
        line !== undefined && fault.column >= 1 && fault.column <= line.length + 1,
        'the fault is at a position in the text',
      );
    }
    const read = parseConfigText(input);
    if (!input.startsWith('\ufeff'))
      must((read.kind === 'ok') === (fault === undefined), 'a text without a fault has a value');
    if (read.kind === 'ok' && parsed !== undefined) mustEqual(read.value, parsed.value, 'the value is that of JSON');
  },
};

function parsedJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** Paths of all values of the example. A line `path=JSON` of an input changes one of them. */
const places = placesOf(example, []);

function placesOf(value: unknown, path: readonly string[]): string[] {
  if (typeof value !== 'object' || value === null) return [path.join('.')];
  return [path.join('.'), ...Object.entries(value).flatMap(([name, inner]) => placesOf(inner, [...path, name]))];
}

const config: Target = {
  name: 'config',
  seeds: ['', ...places.map((path) => `${path}=null`), ...places.map((path) => `${path}=`)],
  words: [
    ...places,
    '=',
    '\n',
    '"',
    '{}',
    '[]',
    '-1',
    '0',
    '1e999',
    'true',
    '"10MB"',
    '"5s"',
    '"never"',
    '"__proto__"',
    '.0',
    '.x',
    '"/"',
    '"*"',
  ],
  check(input) {
    const value = structuredClone(example);
    for (const line of input.split('\n')) change(value, line);
    const loaded = checkConfig(value, '/etc');
    if (loaded.kind === 'invalid') {
      must(loaded.problems.length > 0, 'an invalid configuration has a problem');
      for (const { message } of loaded.problems)
        must(message !== '' && !/undefined|\[object/.test(message), `a problem has a message: ${message}`);
      return;
    }
    mustEqual(checkConfig(value, '/etc'), loaded, 'a second check gives the same result');
    must(
      loaded.config.routes.length > 0 && loaded.config.listen.length > 0,
      'a valid configuration has routes and listeners',
    );
  },
};

/** `a.b.0=JSON` sets a value, and `a.b.0=` removes it. A text that is no JSON is a string. */
function change(value: unknown, line: string): void {
  const equals = line.indexOf('=');
  const path = (equals < 0 ? line : line.slice(0, equals)).split('.');
  const last = path.pop() ?? '';
  let place: unknown = value;
  for (const name of path) place = isObject(place) ? Reflect.get(place, name) : undefined;
  if (!isObject(place) || last === '__proto__') return;
  const text = line.slice(equals + 1);
  if (equals >= 0 && text === '') delete place[last];
  else if (equals >= 0) place[last] = parsedJson(text)?.value ?? text;
}

function isObject(value: unknown): value is Record<string, unknown> {
  // The shared prototypes must not change.
  return typeof value === 'object' && value !== null && value !== Object.prototype && value !== Array.prototype;
}

const configValues: Target = {
  name: 'config-values',
  seeds: [
    '127.0.0.1:8080',
    '[::1]:443',
    'unix:/run/x',
    'systemd:a',
    '10.0.0.0/8',
    '2001:db8::/32',
    '10 GB',
    '512MiB',
    '60s',
    '0',
    'a.example',
  ],
  words: [
    ':',
    '/',
    '[',
    ']',
    'unix:',
    'systemd',
    '::',
    '255',
    'GB',
    'MiB',
    ' ',
    's',
    'ms',
    '65535',
    '99999',
    '.',
    '128',
  ],
  check(input) {
    const place = parseListenPlace(input);
    if (place !== undefined)
      mustEqual(parseListenPlace(formatListenPlace(place)), place, 'a formatted listen address is parsed as the same');
    const range = parseAddressRange(input);
    if (range !== undefined) {
      must(createPeerList([range])(range.address), 'a range contains its own address');
      must(range.prefixLength <= (range.family === 'ipv4' ? 32 : 128), 'a prefix length fits its address family');
    }
    for (const amount of [parseSize(input), parseDuration(input)]) {
      must(
        amount === undefined || (Number.isSafeInteger(amount) && amount >= 0),
        'an amount is a safe integer that is not negative',
      );
    }
    if (isHostName(input)) must(isHostField(input), 'a host name is a valid Host field');
  },
};

export const configTargets: readonly Target[] = [json, config, configValues];
