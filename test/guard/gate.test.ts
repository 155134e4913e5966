/** What a gate gives responses, whoever made them, where the parts of it do not agree. */

import { describe, expect, it } from 'vitest';
import { errorResponse } from '../../src/delivery/problem.ts';
import { createAccess } from '../../src/guard/access/access.ts';
import { createFieldChange, createPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate } from '../../src/guard/gate.ts';
import type { Fields } from '../../src/http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createRules } from '../support/proxies/credential-ground.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const forAll = {
  remove: ['x-accel-expires'],
  set: { 'cache-control': 'public, max-age=60', 'cdn-cache-control': 'max-age=60' },
  add: { 'surrogate-control': 'max-age=60' },
};
const removed = { remove: ['cache-control'], set: {}, add: {} };

/** Who may keep a response of a route with these rules for fields, as its fields tell. */
function cachingOf(
  rules: Parameters<typeof createFieldChange>[0],
  isGuarded: boolean,
  response: ProxyResponse,
): Fields {
  const gate = createGate({
    access: createAccess({
      allow: undefined,
      deny: undefined,
      credentials: isGuarded ? createRules(['bearer']).rules : undefined,
    }),
    allowances: boundlessAllowances,
    presentation: createPresentation({ cors: undefined, security: undefined, change: createFieldChange(rules) }),
  });
  const request = { scheme: 'https', method: 'GET', fields: [] } as unknown as ProxyRequest;
  const { fields } = gate.present(request, response);
  return fields.filter(([name]) => /-control$|expires/.test(name));
}

describe('the rules for fields', () => {
  const found: ProxyResponse = { status: 200, fields: fieldsOf('Cache-Control: max-age=5'), body: { kind: 'none' } };
  const error = errorResponse(new ProxyError('credentials_required'));
  const ofOrigin: ProxyResponse = { ...found, status: 500 };

  it.each<[name: string, rules: typeof forAll | typeof removed, isGuarded: boolean, ProxyResponse, want: string[]]>([
    [
      'say who may keep a response',
      forAll,
      false,
      found,
      ['Cache-Control: public, max-age=60', 'CDN-Cache-Control: max-age=60', 'Surrogate-Control: max-age=60'],
    ],
    ['say it of an error of the origin', removed, false, ofOrigin, []],
    ['let nobody keep an error of our own', forAll, false, error, ['Cache-Control: no-store']],
    ['leave an error of our own what it says', removed, false, error, ['Cache-Control: no-store']],
    ['give nobody else what credentials are asked for', forAll, true, found, ['Cache-Control: private, max-age=60']],
    ['leave what is behind credentials private', removed, true, found, ['Cache-Control: private']],
    ['let nobody keep a refusal', forAll, true, error, ['Cache-Control: private, no-store']],
  ])('%s', (_name, rules, isGuarded, response, want) => {
    expect(cachingOf(rules, isGuarded, response)).toEqual(fieldsOf(...want));
  });
});
