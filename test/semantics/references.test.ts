import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import {
  clientReference,
  clientReferences,
  type MappedRequest,
  originReferences,
  type ReferenceRules,
} from '../../src/semantics/references.ts';

const plain: ReferenceRules = {
  scheme: 'http',
  names: new Set(['http://127.0.0.1:9803', 'http://127.0.0.1:9804']),
  basePath: '',
  prefix: '',
};
const stripped: ReferenceRules = { ...plain, prefix: '/app' };
const based: ReferenceRules = { ...plain, basePath: '/base' };
const both: ReferenceRules = { ...plain, basePath: '/base', prefix: '/app' };

const asked = (proto = 'http', host = 'app.example', target = '/dir') => ({
  target,
  fields: [
    ['host', host],
    ['x-forwarded-proto', proto],
  ] as Fields,
});

describe('a reference of an origin becomes', () => {
  it.each<[rules: ReferenceRules, reference: string, want: string]>([
    // Its own names: those of its URLs, and the Host that it saw.
    [plain, 'http://127.0.0.1:9803/dir/', '/dir/'],
    [plain, 'HTTP://127.0.0.1:9804/dir/?a=b#c', '/dir/?a=b#c'],
    [plain, 'http://APP.example/x', '/x'],
    [plain, 'http://app.example:80/x', '/x'],
    [plain, '//app.example/x', '/x'],
    [plain, 'http://app.example', '/'],
    [plain, 'http://app.example?q', '/?q'],
    [plain, 'http://app.example/\xc3\xa9|"', '/\xc3\xa9|"'],
    // Others.
    [plain, 'http://127.0.0.1:9805/', 'http://127.0.0.1:9805/'],
    [plain, 'https://app.example/x', 'https://app.example/x'],
    [plain, 'http://app.example.net/', 'http://app.example.net/'],
    [plain, 'http://app.example@evil.example/', 'http://app.example@evil.example/'],
    [plain, 'http://user@app.example/', 'http://user@app.example/'],
    [plain, 'http://app.example\\@evil.example/', 'http://app.example\\@evil.example/'],
    [plain, 'http://app.example:99999/', 'http://app.example:99999/'],
    [plain, 'ftp://app.example/', 'ftp://app.example/'],
    [plain, '/x', '/x'],
    [plain, '', ''],
    [plain, '../x', '../x'],
    // A path with two slashes must not become the name of a server.
    [plain, 'http://app.example//evil.example/', '/.//evil.example/'],
    [plain, 'http://app.example/\\evil.example/', '/./\\evil.example/'],
    [based, 'http://app.example/base//evil.example/', '/.//evil.example/'],
    [based, '/base//evil.example/', '/.//evil.example/'],
    // Paths.
    [stripped, '/login', '/app/login'],
    [stripped, '/', '/app/'],
    [stripped, 'login', 'login'],
    [stripped, '?a', '?a'],
    [stripped, '//other.example/login', '//other.example/login'],
    [stripped, 'http://app.example/login', '/app/login'],
    [stripped, '/app/login', '/app/login'],
    [stripped, '/app', '/app'],
    [stripped, '/apple', '/app/apple'],
    [based, '/base/x', '/x'],
    [based, '/base', '/'],
    [based, '/base?q', '/?q'],
    [based, '/basement', '/basement'],
    [based, 'http://app.example/base/x', '/x'],
    [based, 'http://app.example/other', 'http://app.example/other'],
    [both, '/base/x', '/app/x'],
    [both, '/base/app/x', '/app/x'],
    [both, '/app/x', '/app/x'],
    [both, 'http://app.example/other', 'http://app.example/other'],
  ])('%j %s', (rules, reference, want) => {
    expect(clientReference(reference, rules, asked())).toBe(want);
  });

  it('one of the client’s scheme, too, unless it leads only from http to https', () => {
    expect(clientReference('https://app.example/x', plain, asked('https'))).toBe('/x');
    expect(clientReference('https://app.example/dir#a', plain, asked('https'))).toBe('https://app.example/dir#a');
    expect(clientReference('https://app.example:80/x', plain, asked('https'))).toBe('https://app.example:80/x');
    expect(clientReference('http://app.example/dir', plain, asked('https'))).toBe('/dir');
    expect(clientReference('https://127.0.0.1:9803/x', plain, asked('https', '127.0.0.1:9803'))).toBe('/x');
  });
});

describe('fields of a response', () => {
  it.each<[name: string, value: string, want: string]>([
    ['location', 'http://app.example/x', '/app/x'],
    ['content-location', '/x', '/app/x'],
    ['sourcemap', '/x.map', '/app/x.map'],
    ['refresh', '5', '5'],
    ['refresh', '5; url=http://app.example/x', '5; url=/app/x'],
    ['refresh', "0;URL='/x' ", "0;URL='/app/x' "],
    ['refresh', '0, /x', '0, /app/x'],
    ['refresh', '1; url="http://other.example/x"', '1; url="http://other.example/x"'],
    [
      'link',
      '</a.css>; rel=preload, <http://app.example/b>;title="</c>"',
      '</app/a.css>; rel=preload, </app/b>;title="</c>"',
    ],
    ['link', '<https://other.example/>; rel=preconnect', '<https://other.example/>; rel=preconnect'],
    ['link', '<', '<'],
    ['x-location', 'http://app.example/x', 'http://app.example/x'],
  ])('%s: %s', (name, value, want) => {
    const fields: Fields = [
      ['etag', '"1"'],
      [name, value],
    ];
    const mapped = clientReferences(fields, stripped, asked());
    expect(mapped).toEqual([
      ['etag', '"1"'],
      [name, want],
    ]);
    expect(mapped === fields).toBe(value === want);
  });
});

describe('fields of a request', () => {
  const used: MappedRequest = {
    scheme: 'https',
    authority: 'cdn.example',
    host: 'app.example:81',
    isNameOfServer: true,
  };

  it.each<[name: string, value: string, want: string, rules?: ReferenceRules, change?: Partial<MappedRequest>]>([
    ['origin', 'https://cdn.example', 'http://app.example:81'],
    ['origin', 'https://CDN.example:443', 'http://app.example:81'],
    ['origin', 'http://cdn.example', 'http://cdn.example'],
    ['origin', 'https://cdn.example/', 'https://cdn.example/'],
    ['origin', 'https://cdn.example.evil.example', 'https://cdn.example.evil.example'],
    ['origin', 'null', 'null'],
    ['origin', 'https://cdn.example', 'https://cdn.example', plain, { isNameOfServer: false }],
    ['origin', 'https://cdn.example', 'https://cdn.example', plain, { host: 'cdn.example' }],
    ['referer', 'https://cdn.example/app/x?y', 'http://app.example:81/app/x?y'],
    ['referer', 'https://cdn.example/app/x?y', 'http://app.example:81/x?y', stripped],
    ['referer', 'https://cdn.example/', 'http://app.example:81/', stripped],
    ['referer', 'https://cdn.example/app/x', 'http://app.example:81/base/x', both],
    ['referer', 'https://u@cdn.example/app/x', 'https://u@cdn.example/app/x'],
    ['referer', 'https://cdn.example/x', 'https://cdn.example/x', plain, { isNameOfServer: false }],
    ['destination', 'https://cdn.example/app/x', 'http://app.example:81/x', stripped, { isNameOfServer: false }],
    ['destination', 'https://other.example/app/x', 'https://other.example/app/x', stripped],
    // RFC 4918 §8.3: a path may stand for the URI.
    ['destination', '/app/x', '/x', stripped],
    ['destination', '/app/x', '/base/x', both],
    ['destination', '/apple/x', '/apple/x', stripped],
    ['destination', '/app/x', '/app/x'],
    // RFC 4918 §10.4: the resources that conditions are about, and not the state tokens.
    [
      'if',
      '<https://cdn.example/app/x> (<urn:uuid:1> ["a<b>"]) (Not <DAV:no-lock>) </app/y> (<opaquelocktoken:2>)',
      '<http://app.example:81/x> (<urn:uuid:1> ["a<b>"]) (Not <DAV:no-lock>) </y> (<opaquelocktoken:2>)',
      stripped,
      { isNameOfServer: false },
    ],
    ['if', '<https://other.example/app/x> (<urn:uuid:1>)', '<https://other.example/app/x> (<urn:uuid:1>)', stripped],
    ['if', '(<https://cdn.example/app/x>)', '(<https://cdn.example/app/x>)', stripped],
    ['if', '(["</app/x>"])', '(["</app/x>"])', stripped],
    ['if', '<https://cdn.example/app/x', '<https://cdn.example/app/x', stripped],
    ['x-origin', 'https://cdn.example', 'https://cdn.example'],
  ])('%s: %s becomes %s', (name, value, want, rules = plain, change = {}) => {
    expect(originReferences([[name, value]], { ...used, ...change }, rules)).toEqual([[name, want]]);
  });
});
