/** The caching fields that a gate gives responses, where the parts of the gate disagree. */

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

const sharing = {
  remove: ['x-accel-expires'],
  set: { 'cache-control': 'public, max-age=60', 'cdn-cache-control': 'max-age=60' },
  add: { 'surrogate-control': 'max-age=60' },
};
const removed = { remove: ['cache-control'], set: {}, add: {} };

/** Returns the caching fields of a response on a route with these rules for fields. */
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

  it.each<[name: string, rules: typeof sharing | typeof removed, isGuarded: boolean, ProxyResponse, want: string[]]>([
    [
      'set the caching fields of a response',
      sharing,
      false,
      found,
      ['Cache-Control: public, max-age=60', 'CDN-Cache-Control: max-age=60', 'Surrogate-Control: max-age=60'],
    ],
    ['remove the caching fields of an error of the origin', removed, false, ofOrigin, []],
    ["do not make the proxy's own errors cacheable", sharing, false, error, ['Cache-Control: no-store']],
    ["do not remove no-store from the proxy's own errors", removed, false, error, ['Cache-Control: no-store']],
    [
      'do not make a response that needs credentials public',
      sharing,
      true,
      found,
      ['Cache-Control: private, max-age=60'],
    ],
    ['do not remove private from a response that needs credentials', removed, true, found, ['Cache-Control: private']],
    ['do not make a refusal cacheable', sharing, true, error, ['Cache-Control: private, no-store']],
  ])('%s', (_name, rules, isGuarded, response, want) => {
    expect(cachingOf(rules, isGuarded, response)).toEqual(fieldsOf(...want));
  });
});
