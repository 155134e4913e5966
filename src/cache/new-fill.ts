/** From a response that may be stored to a fill. */

import { hasField } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';
import { freshnessLifetime } from '../semantics/freshness.ts';
import { storableFields } from '../semantics/storing.ts';
import { formatVariant, nominatedFields } from '../semantics/vary.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Clock } from './clock.ts';
import { commit } from './commit.ts';
import { Fill, type FillOptions } from './fill.ts';
import type { Clearance } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { fillFields } from './plan.ts';
import type { UnsharedKeys } from './unshared-keys.ts';

/** What fills work with. */
export interface FillContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly emit: Emit;
  /** Bytes held for readers of a fill that the store no longer takes. */
  readonly windowBytes: number;
  /** Told of keys whose responses turn out not to be for sharing. */
  readonly unshared: UnsharedKeys;
}

/** A response, and when it was asked for and came. */
export interface Received {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
}

/**
 * Makes a fill that is ready to run. `validated` is the entry that its request was to validate: the bytes may turn out to be the
 * same ones. Throws `StoreFault`; the body is then untouched.
 */
export async function createFill(
  context: FillContext,
  inquiry: Inquiry,
  validated: StoredEntry | undefined,
  received: Received,
  clearance: Clearance,
): Promise<Fill> {
  const { store, clock } = context;
  const { response } = received;
  const { key } = inquiry;
  const stored = describe(inquiry, received);
  const variant = formatVariant(stored.nominated);
  const previous = validated?.variant === variant ? validated : undefined;
  const writer = await store.openWriter({ key, variant, metadata: stored, sizeBytes: response.sizeBytes });

  const isOurs = stored.status === 200 && !hasValidator(stored);
  const ownEntityTag = `"rw-${writer.generation}"`;
  // Until the last byte has come, a refetch may turn out to be the generation that is stored: no tag is claimed for it.
  const isUndecided = isOurs && previous?.metadata.ownEntityTag !== undefined;
  const isRevoked = () => clearance.isRevoked;
  const written = { writer, place: { key, variant }, stored, ownEntityTag, previous, isRevoked };
  return new Fill({
    response: isOurs && !isUndecided ? { ...stored, ownEntityTag } : stored,
    body: response.body,
    sizeBytes: response.sizeBytes,
    writer,
    blockSizeBytes: store.blockSizeBytes,
    windowBytes: context.windowBytes,
    onAbort: inquiry.policy.onAbort,
    wantsDigest: isOurs,
    commit: (body) => commit(store, written, body, clock.now()),
    ...reporting(context, key, writer.generation),
  });
}

/**
 * What is stored of a response besides its bytes. An origin that says nothing of freshness has not thought of caches: its
 * response may be for the one whose cookies came with the request, and is shared with those who send the same ones only.
 */
function describe({ policy, originFields }: Inquiry, { response, requestAt, responseAt }: Received): StoredResponse {
  const { status, fields } = response;
  const isUnspoken = freshnessLifetime({ status, fields, responseAt }, policy).source === 'none';
  return {
    status,
    fields: storableFields(fields, responseAt),
    nominated: nominatedFields(fields, fillFields(originFields), isUnspoken ? ['cookie'] : []),
    requestAt,
    responseAt,
  };
}

function hasValidator({ fields }: StoredResponse): boolean {
  return hasField(fields, 'etag') || hasField(fields, 'last-modified');
}

/** Tells what becomes of a fill. */
function reporting(
  { clock, emit, unshared }: FillContext,
  key: string,
  generation: string,
): Pick<FillOptions, 'onEnd' | 'onStoreFault'> {
  const startedAt = clock.now();
  return {
    onEnd: ({ result, bytes, error }) =>
      emit({
        kind: 'fill',
        key,
        generation,
        bytes,
        result,
        durationMs: clock.now() - startedAt,
        error: error?.code,
        errorDetail: error?.detail,
      }),
    onStoreFault: (fault) => {
      if (fault.reason === 'too_large') unshared.note(key, 'too-large', clock.now());
      emit({
        kind: 'store',
        level: 'warn',
        message: `The rest of a fill is relayed without being stored: ${fault.message}`,
        detail: key,
      });
    },
  };
}
