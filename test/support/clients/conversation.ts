/** Exchanges of clients with a proxy and its origin, one after the other: the first steps of most caching scenarios. */

import { expect } from 'vitest';
import { turn } from '../clocks/turn.ts';
import type { FakeExchange, FakeHead } from '../origins/fake-origin.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../stores/steered-store.ts';
import { patternBytes } from '../values/pattern-body.ts';

/** The default body of `fetched`. */
export const storedBody = patternBytes(0, 3000);

/** Sends a request that the origin answers. Resolves when the response is read and, where it is stored, can be found. */
export async function fetched(
  proxy: WholeProxy,
  head: FakeHead,
  sent: Sent = {},
  bytes: Uint8Array = storedBody,
): Promise<{ readonly client: Client; readonly exchange: FakeExchange }> {
  const client = proxy.send(sent);
  const exchange = await proxy.origin.next();
  exchange.respond(head, bytes);
  await client.bytes();
  await settled();
  return { client, exchange };
}

/** Sends a request, reads its body, and checks that no request went to the origin. */
export async function reused(proxy: WholeProxy, sent: Sent = {}): Promise<Client> {
  const before = proxy.origin.requests;
  const client = proxy.send(sent);
  await client.bytes();
  expect(proxy.origin.requests).toBe(before);
  return client;
}

/** Waits until everything that follows from the responses so far has happened. */
export async function settled(): Promise<void> {
  for (let passed = 0; passed < 20; passed += 1) await turn();
}

/** Creates a proxy with a store that a test can hold up or make fail at a step. */
export function createSteeredProxy({
  maxSizeBytes = 16 * 1024 * 1024,
  ...options
}: WholeProxyOptions & { readonly maxSizeBytes?: number } = {}): {
  readonly store: SteeredStore;
  readonly proxy: WholeProxy;
} {
  const store = createSteeredStore({ maxSizeBytes });
  return { store, proxy: createWholeProxy({ ...options, createStore: () => store }) };
}

/** Ends a scenario: checks that no request is left at the origin and no reader or writer in the store. */
export async function ended(proxy: WholeProxy, store?: SteeredStore): Promise<void> {
  await settled();
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
  if (store !== undefined) expect(store.held).toBe(0);
}
