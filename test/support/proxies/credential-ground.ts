/** Credential rules with the names, tokens and keys of the tests, and requests with credentials. */

import {
  type CredentialRules,
  createCredentialCheck,
  type PassedCredentials,
} from '../../../src/guard/access/access.ts';
import { createTokenTable } from '../../../src/guard/access/authorization.ts';
import { createBasicCheck, type PasswordCheck } from '../../../src/guard/access/passwords.ts';
import { createSignatureCheck, signTarget } from '../../../src/guard/access/signed-url.ts';
import type { ProxyRequest } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { Routed } from '../../../src/routing/inquiry.ts';
import { splitTarget } from '../../../src/routing/target.ts';
import { routeWith } from '../../routing/route-sample.ts';
import { fieldsOf } from '../values/fields-of.ts';

/** The key with which all tables hash their secrets. */
export const key = Buffer.alloc(32, 7);
/** The current time of the tests, in epoch milliseconds. */
export const now = Date.UTC(2026, 0, 2);
const route = routeWith();
export const client = { address: '192.0.2.7', forwardedFor: [] };
export const base64 = (text: string, encoding: BufferEncoding = 'utf8') =>
  Buffer.from(text, encoding).toString('base64');
const entry = (name: string, secret: string) => ({ name, secret, line: 1 });

/** Makes a fake hash: its salt is the password, with which the fake check compares. */
export const hashOf = (password: string) => ({
  ln: 10,
  r: 8,
  p: 1,
  salt: Buffer.from(password),
  digest: Buffer.alloc(32),
});

/** Passwords by name. */
export const passwords = new Map([
  ['ada', 'love'],
  ['bob', 'a:b'],
  ['\u00e9', '\u00e9'],
]);

/** Creates rules of these kinds, and a list that records each password check. */
export function createRules(kinds: readonly (keyof CredentialRules)[], areForwarded = false) {
  const checks: PasswordCheck[] = [];
  const all: CredentialRules = {
    realm: 'Films',
    basic: createBasicCheck({
      hashes: new Map([...passwords].map(([name, password]) => [name, hashOf(password)])),
      checks: async (check) => {
        checks.push(check);
        return check.password.normalize('NFC') === Buffer.from(check.hash.salt).toString();
      },
      key,
    }),
    bearer: createTokenTable([entry('robot', 'token-of-robot-01')], key),
    apiKey: createTokenTable([entry('app', 'key-of-the-app-01')], key),
    signedUrls: createSignatureCheck(new Map([['k1', 'secret of the key']]), { now: () => now, decoy: 'x' }),
    areForwarded,
  };
  const none = { basic: undefined, bearer: undefined, apiKey: undefined, signedUrls: undefined };
  const rules: CredentialRules = { ...all, ...none, ...Object.fromEntries(kinds.map((kind) => [kind, all[kind]])) };
  return { rules, checks };
}

/** Makes a request with these field lines besides Host. */
export function requestWith(lines: readonly string[], target = '/film', method = 'GET'): ProxyRequest {
  return {
    method,
    scheme: 'https',
    authority: 'media.example',
    target,
    version: '1.1',
    fields: fieldsOf('Host: media.example', ...lines),
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.7', port: 1 },
    receivedAt: now,
    signal: new AbortController().signal,
    sendInterim: () => {},
  };
}

/** Routes a request to the only route. */
export function routedOf(request: ProxyRequest): Routed {
  return { route, scheme: request.scheme, authority: 'media.example', target: splitTarget(request.target) };
}

/** Runs the credential check, and returns its result or its refusal. */
export async function outcomeOf(
  rules: CredentialRules,
  request: ProxyRequest,
): Promise<PassedCredentials | ProxyError> {
  try {
    return await createCredentialCheck(rules)(request, routedOf(request), client);
  } catch (thrown) {
    if (thrown instanceof ProxyError) return thrown;
    throw thrown;
  }
}

/** Returns `passes as NAME`; or the status, the code and the challenges. */
export async function verdictOf(rules: CredentialRules, request: ProxyRequest): Promise<string> {
  const outcome = await outcomeOf(rules, request);
  if (!(outcome instanceof ProxyError)) return `passes as ${outcome.user}`;
  const challenges = outcome.fields.map(([name, value]) => `${name}: ${value}`);
  return [`${outcome.status} ${outcome.code}`, ...challenges].join('; ');
}

/** Signs a target; the signature is valid unless `changes` break it. */
export const signed = (target: string, changes = {}) =>
  signTarget(
    { authority: 'media.example', target, keyId: 'k1', expires: now / 1000 + 1, ...changes },
    'secret of the key',
  );
