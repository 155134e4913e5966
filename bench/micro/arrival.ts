/** The listener's and the router's checks of a request head. */

import { isAuthority, readRequestFraming, readTarget } from '../../src/listener/receive.ts';
import { cacheKey } from '../../src/routing/cache-key.ts';
import { normaliseAuthority, normaliseTarget } from '../../src/routing/target.ts';
import type { MicroCase } from '../micro-case.ts';
import { request, requestFields } from '../micro-sample.ts';

const { target, authority } = request;
const [path = '', query = ''] = target.split(/(?=\?)/);
const keyParts = { originScope: 'http://origin.example:8080/', scheme: 'http', authority, path, query } as const;
const upload = [...requestFields, ['content-length', '123456'] as const];

export const cases: readonly MicroCase[] = [
  { name: 'readTarget, origin-form', call: () => readTarget('GET', target, 'http') },
  { name: 'readTarget, absolute-form', call: () => readTarget('GET', `http://${authority}${target}`, 'http') },
  { name: 'isAuthority', call: () => isAuthority(authority) },
  { name: 'readRequestFraming, no body', call: () => readRequestFraming('1.1', requestFields) },
  { name: 'readRequestFraming, Content-Length', call: () => readRequestFraming('1.1', upload) },
  { name: 'normaliseAuthority', call: () => normaliseAuthority('Media.Example.org:80', 'http') },
  { name: 'normaliseTarget, as it is', call: () => normaliseTarget(target) },
  { name: 'normaliseTarget, encoded', call: () => normaliseTarget('/a%7eb/./c%2fd/../e.mp4?x=%c3%a4') },
  { name: 'cacheKey', call: () => cacheKey(keyParts) },
];
