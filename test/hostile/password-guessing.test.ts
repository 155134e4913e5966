/** Many concurrent guesses of passwords: few are checked at a time, few wait, and other clients do not wait. */

import { expect, it } from 'vitest';
import { createAccess } from '../../src/guard/access/access.ts';
import {
  createBasicCheck,
  createPasswordChecks,
  formatPasswordHash,
  parsePasswordHash,
} from '../../src/guard/access/passwords.ts';
import { plainPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate } from '../../src/guard/gate.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { base64, createRules, key, requestWith } from '../support/proxies/credential-ground.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 5000;
const authorization = `Basic ${base64('ada:love')}`;

/** Opens a route that checks two passwords at a time, and admits sixteen checks at once, four of each client. */
async function openGuarded() {
  const reading = parsePasswordHash(await formatPasswordHash('love', Buffer.alloc(16), { ln: 10, r: 8, p: 1 }));
  if (reading.kind === 'refused') throw new Error(reading.reason);
  const checks = createPasswordChecks({ concurrent: 2, total: 16, perClient: 4 });
  const basic = createBasicCheck({ hashes: new Map([['ada', reading.hash]]), checks, key });
  const credentials = { ...createRules([]).rules, basic };
  return createWholeProxy({
    gate: createGate({
      access: createAccess({ allow: undefined, deny: undefined, credentials }),
      allowances: boundlessAllowances,
      presentation: plainPresentation,
    }),
  });
}

it('1,000 guesses share a few checks, while a client with a known password is served in the same tick', async () => {
  const proxy = await openGuarded();
  const known = { authority: 'media.example', target: '/film', fields: { authorization } };
  const first = proxy.send(known);
  const exchange = await proxy.origin.next();
  const fields = { 'content-length': String(size), 'cache-control': 'max-age=3600' };
  exchange.respond({ fields }, patternBytes(0, size));
  await expectWhole(first, { sizeBytes: size });
  await proxy.fillsEnded(1);

  const guesses = Array.from({ length: 1000 }, (_, index) =>
    proxy.send({
      ...known,
      peer: index < 500 ? '198.51.100.66' : `198.51.100.${index % 10}`,
      fields: { authorization: `Basic ${base64(`ada:guess${index}`)}` },
    }),
  );
  const request: ProxyRequest = { ...requestWith([`Authorization: ${authorization}`]), scheme: 'http' };
  const response = proxy.handler(request);
  expect(response).toMatchObject({ status: 200 });
  if ('body' in response && response.body.kind === 'stream') response.body.stream.close();

  const outcomes = await Promise.all(
    guesses.map(async (guess) => `${await guess.status()} ${await guess.field('retry-after')}`),
  );
  const counts = Map.groupBy(outcomes, (outcome) => outcome);
  expect([...counts.keys()].toSorted()).toEqual(['401 undefined', '429 5', '503 5']);
  expect(counts.get('401 undefined')).toHaveLength(16);
  await Promise.all(guesses.map((guess) => guess.bytes()));

  // All places are free again: a later password is checked.
  const later = proxy.send({ ...known, fields: { authorization: `Basic ${base64('ada:guess')}` } });
  expect(await later.status()).toBe(401);
  await later.bytes();
  expect(proxy.origin.requests).toBe(1);
  await proxy.close();
});
