/** What clients ask a proxy one after the other, and what its origin answers: the beginning of most stories about caching. */

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

/** The body that `fetched` sends where nothing else is said. */
export const storedBody = patternBytes(0, 3000);

/** A request that the origin answers; resolves when the response is read and, where it is stored, can be found. */
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

/** A request that is answered without a word to the origin; its body is read. */
export async function reused(proxy: WholeProxy, sent: Sent = {}): Promise<Client> {
  const before = proxy.origin.requests;
  const client = proxy.send(sent);
  await client.bytes();
  expect(proxy.origin.requests).toBe(before);
  return client;
}

/** Waits until all has happened that follows from what was answered so far. */
export async function settled(): Promise<void> {
  for (let passed = 0; passed < 20; passed += 1) await turn();
}

/** A proxy whose store a test can hold up, or have fail, at a step. */
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

/** Ends a story: all has happened, the origin was asked nothing that it has not answered, and nothing is held. */
export async function ended(proxy: WholeProxy, store?: SteeredStore): Promise<void> {
  await settled();
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
  if (store !== undefined) expect(store.held).toBe(0);
}
