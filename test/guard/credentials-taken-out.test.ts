/** The request that goes on after its credentials were accepted. */

import { describe, expect, it } from 'vitest';
import type { CredentialRules, PassedCredentials } from '../../src/guard/access/access.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { splitTarget } from '../../src/routing/target.ts';
import { base64, createRules, outcomeOf, requestWith, routedOf, signed } from '../support/proxies/credential-ground.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('the request behind the credential check', () => {
  const kinds = ['basic', 'bearer', 'apiKey', 'signedUrls'] as const;
  const basic = `Authorization: Basic ${base64('ada:love')}`;
  const bearer = 'Authorization: Bearer token-of-robot-01';
  const apiKey = 'X-API-Key: key-of-the-app-01';
  const digest = 'Authorization: Digest username="x"';
  const other = 'Accept: */*';

  it.each<[kinds: readonly (keyof CredentialRules)[], lines: readonly string[], want: readonly string[]]>([
    [kinds, [basic, other], [other]],
    [kinds, [bearer, other], [other]],
    [kinds, [apiKey, other], [other]],
    [kinds, [apiKey, basic, other], [other]],
    [kinds, [apiKey, 'Authorization: Bearer wrong', other], [other]],
    [kinds, [apiKey, 'Authorization: Basic wrong', other], [other]],
    [kinds, ['X-API-Key: wrong', basic, other], [other]],
    // Credentials of a scheme that the route does not check are for the origin.
    [kinds, [apiKey, digest, other], [digest, other]],
    [['bearer', 'apiKey'], [apiKey, basic], [basic]],
    [['basic', 'apiKey'], [apiKey, bearer], [bearer]],
    [['apiKey'], [apiKey, bearer], [bearer]],
    [['apiKey'], [apiKey, basic, basic], [basic, basic]],
    [['basic'], [basic, apiKey], [apiKey]],
  ])('lacks the checked credentials: %j %j', async (taken, lines, want) => {
    const passed = (await outcomeOf(createRules(taken).rules, requestWith(lines))) as PassedCredentials;
    expect(passed.request.fields).toEqual(fieldsOf('Host: media.example', ...want));
  });

  it.each<[received: string, path: string, query: string]>([
    [signed('/film'), '/film', ''],
    [signed('/film?'), '/film', '?'],
    [signed('/film?b=%7e&a'), '/film', '?b=%7e&a'],
    [signed('/a/%2e%2e/%66ilm'), '/a/%2e%2e/%66ilm', ''],
    [`${signed('/film')}&rw-key=k1`, '/film', ''],
    [`${signed('/film')}x`, '/film', ''],
    ['/film?rw-key=k1&x', '/film', '?x'],
  ])('lacks a signature, right or wrong: %s', async (received, path, query) => {
    const { rules } = createRules(['signedUrls', 'apiKey']);
    const request = requestWith([apiKey], received);
    const passed = (await outcomeOf(rules, request)) as PassedCredentials;
    expect(passed.routed).toEqual({ ...routedOf(request), target: { path, query } });
    expect(passed.request.target).not.toContain('rw-');
    expect(splitTarget(passed.request.target)).toEqual(passed.routed.target);
  });

  it('is the same object where nothing is removed', async () => {
    const request = requestWith([apiKey]);
    const { rules } = createRules(['apiKey'], true);
    expect(await outcomeOf(rules, request)).toEqual({ request, routed: routedOf(request), user: 'app' });
    expect(((await outcomeOf(rules, request)) as PassedCredentials).request).toBe(request);
  });

  it('keeps all credentials with forwardCredentials', async () => {
    const { rules } = createRules(kinds, true);
    const request = requestWith([basic, apiKey], signed('/film'));
    const passed = (await outcomeOf(rules, request)) as PassedCredentials;
    expect([passed.request, passed.routed]).toEqual([request, routedOf(request)]);
  });

  it('keeps its signal, its sendInterim and its body size', async () => {
    const { rules } = createRules(['apiKey']);
    const leaving = new AbortController();
    const interim: number[] = [];
    const request: ProxyRequest = {
      ...requestWith([apiKey], '/film', 'POST'),
      bodySizeBytes: 5,
      signal: leaving.signal,
      sendInterim: ({ status }) => interim.push(status),
    };
    const passed = (await outcomeOf(rules, request)) as PassedCredentials;
    leaving.abort();
    passed.request.sendInterim({ status: 103, fields: [] });
    expect([passed.request.signal.aborted, interim, passed.request.bodySizeBytes]).toEqual([true, [103], 5]);
  });
});
