/** The credentials of a route: which requests pass, and how the others are refused. */

import { describe, expect, it } from 'vitest';
import type { CredentialRules } from '../../src/guard/access/access.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import {
  base64,
  createRules,
  now,
  outcomeOf,
  requestWith,
  signed,
  verdictOf,
} from '../support/proxies/credential-ground.ts';

const basicChallenge = 'www-authenticate: Basic realm="Films", charset="UTF-8"';
const bearerChallenge = 'www-authenticate: Bearer realm="Films"';

describe('Basic', () => {
  const { rules } = createRules(['basic']);

  it.each<[line: string, want: string]>([
    [`Authorization: Basic ${base64('ada:love')}`, 'passes as ada'],
    [`Authorization: BASIC ${base64('ada:love')}`, 'passes as ada'],
    [`Authorization: basic   ${base64('ada:love')}`, 'passes as ada'],
    [`Authorization: Basic ${base64('bob:a:b')}`, 'passes as bob'],
    [`Authorization: Basic ${base64('\u00e9:\u00e9')}`, 'passes as \u00e9'],
    [`Authorization: Basic ${base64('e\u0301:e\u0301')}`, 'passes as \u00e9'],
  ])('%s', async (line, want) => expect(await verdictOf(rules, requestWith([line]))).toBe(want));

  it.each<[what: string, value: string]>([
    ['another password', `Basic ${base64('ada:hate')}`],
    ['an unknown name', `Basic ${base64('eve:love')}`],
    ['the password of another user', `Basic ${base64('ada:a:b')}`],
    ['the name of a property', `Basic ${base64('__proto__:x')}`],
    ['a name in another case', `Basic ${base64('Ada:love')}`],
    ['a password in another case', `Basic ${base64('ada:Love')}`],
    ['no password', `Basic ${base64('ada:')}`],
    ['no name', `Basic ${base64(':love')}`],
    ['no colon', `Basic ${base64('ada')}`],
    ['no credentials after the scheme', 'Basic'],
    ['Latin-1', `Basic ${base64('\xe9:\xe9', 'latin1')}`],
    ['UTF-8 that is too long', `Basic ${base64('\xc1\xa1da:love', 'latin1')}`],
    ['a surrogate', `Basic ${base64('\xed\xa0\x80:love', 'latin1')}`],
    ['a byte order mark', `Basic ${base64('\ufeffada:love')}`],
    ['a line feed', `Basic ${base64('ada:love\n')}`],
    ['a NUL', `Basic ${base64('ada:love\0')}`],
    ['a NUL between', `Basic ${base64('ada\0:love')}`],
    ['Base64 without padding', `Basic ${base64('ada:love1').replace(/=+$/, '')}`],
    ['Base64 with unused bits that are not zero', 'Basic YWRhOmxvdmV='],
    ['Base64 with the URL-safe alphabet', `Basic ${base64('\u00ff\u00ff\u00ff:x').replace(/\//g, '_')}`],
    ['a word after the credentials', `Basic ${base64('ada:love')} x`],
    ['a parameter after the credentials', `Basic ${base64('ada:love')}, realm="x"`],
    ['a tab before the credentials', `Basic\t${base64('ada:love')}`],
    ['more than 4096 characters', `Basic ${base64(`ada:${'x'.repeat(4000)}`)}`],
  ])('refuses %s', async (what, value) => {
    const want = `credentials_${what === 'a tab before the credentials' ? 'required' : 'refused'}; ${basicChallenge}`;
    expect(await verdictOf(rules, requestWith([`Authorization: ${value}`]))).toBe(`401 ${want}`);
  });

  it.each<[lines: readonly string[]]>([
    [[]],
    [['Authorization: Bearer token-of-robot-01']],
    [['Authorization: Digest username="ada"']],
    [['Authorization: ']],
    [['X-API-Key: key-of-the-app-01']],
    [['Proxy-Authorization: Basic YWRhOmxvdmU=']],
    [['Cookie: Authorization=Basic YWRhOmxvdmU=']],
  ])('asks for credentials on a request with %j', async (lines) => {
    expect(await verdictOf(rules, requestWith(lines))).toBe(`401 credentials_required; ${basicChallenge}`);
  });

  it.each<[one: string, other: string]>([
    [`Basic ${base64('ada:love')}`, `Basic ${base64('ada:love')}`],
    [`Basic ${base64('ada:love')}`, 'Bearer x'],
    ['', `Basic ${base64('ada:love')}`],
  ])('refuses two Authorization lines: %j and %j', async (one, other) => {
    const request = requestWith([`Authorization: ${one}`, `Authorization: ${other}`]);
    expect(await verdictOf(rules, request)).toBe('400 malformed_request');
  });
});

describe('Bearer', () => {
  const { rules } = createRules(['bearer']);
  const invalid = `401 credentials_refused; ${bearerChallenge}, error="invalid_token"`;

  it.each<[value: string, want: string]>([
    ['Bearer token-of-robot-01', 'passes as robot'],
    ['bearer token-of-robot-01', 'passes as robot'],
    ['Bearer token-of-robot-02', invalid],
    ['Bearer robot', invalid],
    ['Bearer', invalid],
    ['Bearer ', invalid],
    ['Bearer token-of-robot-01,', invalid],
    ['Bearer token-of-robot-01, Bearer x', invalid],
    ['Bearer "token-of-robot-01"', invalid],
    [`Bearer ${'x'.repeat(100_000)}`, invalid],
    [`Basic ${base64('ada:love')}`, `401 credentials_required; ${bearerChallenge}`],
    ['token-of-robot-01', `401 credentials_required; ${bearerChallenge}`],
  ])('%.60s', async (value, want) => {
    expect(await verdictOf(rules, requestWith([`Authorization: ${value}`]))).toBe(want);
  });

  it('is accepted in the field, not in the query (RFC 6750 §2.3)', async () => {
    const request = requestWith([], '/film?access_token=token-of-robot-01');
    expect(await verdictOf(rules, request)).toBe(`401 credentials_required; ${bearerChallenge}`);
  });
});

describe('API keys and signed URLs, refused with 403', () => {
  it.each<[kinds: readonly (keyof CredentialRules)[], lines: readonly string[], target: string, want: string]>([
    [['apiKey'], ['X-API-Key: key-of-the-app-01'], '/film', 'passes as app'],
    [['apiKey'], ['X-API-Key: key-of-the-app-02'], '/film', '403 key_refused'],
    [['apiKey'], ['X-API-Key: app'], '/film', '403 key_refused'],
    [['apiKey'], ['X-API-Key: '], '/film', '403 key_refused'],
    [['apiKey'], [], '/film', '403 key_refused'],
    [['apiKey'], ['Authorization: Bearer key-of-the-app-01'], '/film', '403 key_refused'],
    [['apiKey'], ['X_API_Key: key-of-the-app-01'], '/film', '403 key_refused'],
    [['apiKey'], [], '/film?x-api-key=key-of-the-app-01', '403 key_refused'],
    [['apiKey'], ['X-API-Key: key-of-the-app-01, x'], '/film', '403 key_refused'],
    [['apiKey'], ['X-API-Key: x', 'X-API-Key: key-of-the-app-01'], '/film', '400 malformed_request'],
    [['apiKey'], [], signed('/film'), '403 key_refused'],
    [['signedUrls'], [], signed('/film'), 'passes as k1'],
    [['signedUrls'], [], signed('/film?a=1'), 'passes as k1'],
    [['signedUrls'], [], '/film', '403 signature_refused'],
    [['signedUrls'], [], `${signed('/film')}x`, '403 signature_refused'],
    [['signedUrls'], [], signed('/film', { expires: now / 1000 }), '403 signature_refused'],
    [['signedUrls'], [], signed('/film', { keyId: 'k2' }), '403 signature_refused'],
    [['signedUrls'], [], signed('/film', { authority: 'other.example' }), '403 signature_refused'],
    [['apiKey', 'signedUrls'], [], '/film', '403 key_refused'],
    [['apiKey', 'signedUrls'], [], signed('/film'), 'passes as k1'],
    [['apiKey', 'signedUrls'], [], `${signed('/film')}x`, '403 signature_refused'],
    [['apiKey', 'signedUrls'], ['X-API-Key: x'], `${signed('/film')}x`, '403 key_refused'],
  ])('%j %j %.40s: %s', async (kinds, lines, target, want) => {
    expect(await verdictOf(createRules(kinds).rules, requestWith(lines, target))).toBe(want);
  });

  it.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND', 'head'])('a signature does not admit %s', async (method) => {
    const { rules } = createRules(['signedUrls']);
    expect(await verdictOf(rules, requestWith([], signed('/film'), method))).toBe('403 signature_refused');
    expect(await verdictOf(rules, requestWith([], signed('/film'), 'HEAD'))).toBe('passes as k1');
  });
});

describe('several kinds of credentials', () => {
  const { rules } = createRules(['basic', 'bearer', 'apiKey', 'signedUrls']);
  const right = {
    basic: `Authorization: Basic ${base64('ada:love')}`,
    bearer: 'Authorization: Bearer token-of-robot-01',
    apiKey: 'X-API-Key: key-of-the-app-01',
  };
  const wrong = {
    basic: `Authorization: Basic ${base64('ada:hate')}`,
    bearer: 'Authorization: Bearer x',
    apiKey: 'X-API-Key: x',
  };
  const both = `${basicChallenge}; ${bearerChallenge}`;

  it.each<[lines: readonly string[], target: string, want: string]>([
    [[right.basic], '/film', 'passes as ada'],
    [[right.bearer], '/film', 'passes as robot'],
    [[right.apiKey], '/film', 'passes as app'],
    [[], signed('/film'), 'passes as k1'],
    [[right.basic, wrong.apiKey], '/film', 'passes as ada'],
    [[wrong.basic, right.apiKey], '/film', 'passes as app'],
    [[wrong.bearer, right.apiKey], '/film', 'passes as app'],
    [[wrong.bearer, wrong.apiKey], signed('/film'), 'passes as k1'],
    [[right.basic], `${signed('/film')}x`, 'passes as ada'],
    [[], '/film', `401 credentials_required; ${both}`],
    [[wrong.basic], '/film', `401 credentials_refused; ${both}`],
    [[wrong.bearer], '/film', `401 credentials_refused; ${both}, error="invalid_token"`],
    [[wrong.apiKey], '/film', `401 credentials_refused; ${both}`],
    [[], `${signed('/film')}x`, '403 signature_refused'],
    [[wrong.basic], `${signed('/film')}x`, `401 credentials_refused; ${both}`],
    [['Authorization: Digest x'], '/film', `401 credentials_required; ${both}`],
  ])('need one that is right: %j %.30s: %s', async (lines, target, want) => {
    expect(await verdictOf(rules, requestWith(lines, target))).toBe(want);
  });

  it('have the same refusal for a wrong name, a wrong password and a wrong key', async () => {
    const refusals = await Promise.all(
      [wrong.basic, `Authorization: Basic ${base64('eve:love')}`, 'Authorization: Basic x', wrong.apiKey].map((line) =>
        outcomeOf(rules, requestWith([line])),
      ),
    );
    const contents = refusals.map((error) => error instanceof ProxyError && [error.code, error.message, error.fields]);
    expect(new Set(contents.map((each) => JSON.stringify(each))).size).toBe(1);
  });
});
