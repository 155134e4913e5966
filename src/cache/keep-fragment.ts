/** Keeping a part that cannot be combined with others while it is passed on. */

import { hash } from 'node:crypto';
import type { Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';
import type { Fragment } from '../http/stored-response.ts';
import { selectContentDigest } from '../semantics/digest.ts';
import { decideStoring } from '../semantics/storing.ts';
import { variantName } from '../semantics/variant.ts';
import { StoreFault } from '../store/store.ts';
import { commit } from './commit.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Clearance } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { describe, type Received } from './open-generation.ts';

/**
 * The body of a part, which is stored as a fragment once it has been read to its end. Undefined where it may not be
 * stored, or is larger than a block.
 */
export function keepFragment(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  fragment: Fragment,
  clearance: Clearance,
): BodyStream | undefined {
  const { response, responseAt } = received;
  const { body, sizeBytes, fields } = response;
  const decision = decideStoring({
    request: { method: 'GET', fields: inquiry.originFields },
    response: { status: 200, fields, responseAt },
    policy: inquiry.policy,
  });
  const isSmall = sizeBytes !== undefined && sizeBytes > 0 && sizeBytes <= context.store.blockSizeBytes;
  if (decision.kind === 'refuse' || !isSmall) return undefined;
  return {
    close: () => body.close(),
    async *[Symbol.asyncIterator]() {
      const chunks: Uint8Array[] = [];
      for await (const chunk of body) {
        chunks.push(chunk);
        yield chunk;
      }
      await store(context, inquiry, received, fragment, Buffer.concat(chunks), clearance);
    },
  };
}

/** Never rejects. */
async function store(
  { store: into, clock, emit, telling }: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  fragment: Fragment,
  bytes: Uint8Array,
  clearance: Clearance,
): Promise<void> {
  if (!isAsStated(received.response.fields, bytes)) return;
  const stored = { ...describe(inquiry, received), fragment };
  const place = { key: inquiry.key, variant: variantName(stored) };
  const isRevoked = () => clearance.isRevoked;
  try {
    await using writer = await into.openWriter({ ...place, metadata: stored, sizeBytes: bytes.length });
    await writer.writeBlock(0, bytes);
    const written = { writer, place, stored, previous: undefined, pinSeconds: 0, isRevoked };
    await commit(into, written, { sizeBytes: bytes.length, digest: undefined }, clock.now());
  } catch (thrown) {
    if (!(thrown instanceof StoreFault)) throw thrown;
    const message = `A part is relayed without being stored: ${thrown.message}`;
    emit({ kind: 'store', level: telling.levelOf(thrown.reason, clock.now()), message, detail: inquiry.key });
  }
}

/** Whether the bytes are the ones that the origin has stated the digest of, if it has (RFC 9530 §2). */
function isAsStated(fields: Fields, bytes: Uint8Array): boolean {
  const stated = selectContentDigest(fields);
  return stated === undefined || hash(stated.algorithm, bytes, 'hex') === stated.hex;
}
