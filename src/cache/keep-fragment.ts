/** Keeping a part that cannot be combined with others while it is passed on. */

import { hash } from 'node:crypto';
import type { Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';
import type { Fragment, StoredResponse } from '../http/stored-response.ts';
import { selectContentDigest } from '../semantics/digest.ts';
import { decideStoring } from '../semantics/storing.ts';
import { variantName } from '../semantics/variant.ts';
import { StoreFault } from '../store/store.ts';
import { commit } from './commit.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Clearance, Kept } from './flight.ts';
import type { Inquiry } from './inquiry.ts';
import { describe, type Received } from './open-generation.ts';

/** The body of a part, which is stored as a fragment once it has been read to its end. */
export interface KeptFragment {
  readonly body: BodyStream;
  readonly kept: Kept;
}

/** Undefined where it may not be stored, or is larger than a block. */
export function keepFragment(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  fragment: Fragment,
  clearance: Clearance,
): KeptFragment | undefined {
  const { response, responseAt } = received;
  const { body, sizeBytes, fields } = response;
  const decision = decideStoring({
    request: { method: 'GET', fields: inquiry.originFields },
    response: { status: 200, fields, responseAt },
    policy: inquiry.policy,
  });
  const isSmall = sizeBytes !== undefined && sizeBytes > 0 && sizeBytes <= context.store.blockSizeBytes;
  if (decision.kind === 'refuse' || !isSmall) return undefined;
  const stored = { ...describe(inquiry, received), fragment };
  context.unshared.noteBound(inquiry.key, stored.identity !== undefined, context.clock.now());
  const over = Promise.withResolvers<void>();
  let isRead = false;
  const giveUp = () => {
    if (!isRead) over.resolve();
  };
  clearance.signal.addEventListener('abort', giveUp, { once: true });
  const passing: BodyStream = {
    close: () => {
      body.close();
      giveUp();
    },
    async *[Symbol.asyncIterator]() {
      try {
        const chunks: Uint8Array[] = [];
        for await (const chunk of body) {
          chunks.push(chunk);
          yield chunk;
        }
        isRead = true;
        await store(context, inquiry.key, received, stored, Buffer.concat(chunks), clearance);
      } finally {
        over.resolve();
      }
    },
  };
  return { body: passing, kept: { tags: stored.tags, done: over.promise } };
}

/** Never rejects. */
async function store(
  { store: into, clock, emit, telling, refusals }: ExchangeContext,
  key: string,
  received: Received,
  stored: StoredResponse,
  bytes: Uint8Array,
  clearance: Clearance,
): Promise<void> {
  if (!isAsStated(received.response.fields, bytes)) return;
  const place = { key, variant: variantName(stored) };
  const isRevoked = () => clearance.isRevoked;
  try {
    await using writer = await into.openWriter({ ...place, metadata: stored, sizeBytes: bytes.length });
    await writer.writeBlock(0, bytes);
    const written = { writer, place, stored, previous: undefined, pinSeconds: 0, isRevoked };
    await clearance.storing(() => commit(into, written, { sizeBytes: bytes.length, digest: undefined }, clock.now()));
    refusals.forget(key);
  } catch (thrown) {
    if (!(thrown instanceof StoreFault)) throw thrown;
    refusals.note(key, { reason: 'store-unavailable', status: 206, at: clock.now() });
    const message = `A part is relayed without being stored: ${thrown.message}`;
    emit({ kind: 'store', level: telling.levelOf(thrown.reason, clock.now()), message, detail: key });
  }
}

/** Whether the bytes are the ones that the origin has stated the digest of, if it has (RFC 9530 §2). */
function isAsStated(fields: Fields, bytes: Uint8Array): boolean {
  const stated = selectContentDigest(fields);
  return stated === undefined || hash(stated.algorithm, bytes, 'hex') === stated.hex;
}
