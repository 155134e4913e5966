/** One conversation with the origin about a key: asks for the whole, or validates what is stored, and decides what becomes of the response. */

import { type Fields, hasField } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';
import { freshened, mayFreshen } from '../semantics/freshen.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import { decideStoring, storableFields } from '../semantics/storing.ts';
import { formatVariant, nominatedFields } from '../semantics/vary.ts';
import { type EntryWriter, type Store, type StoredEntry, StoreFault } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Clock } from './clock.ts';
import { Fill } from './fill.ts';
import type { Landing } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { fillFields } from './plan.ts';

/** What an exchange works with. */
export interface ExchangeContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly emit: Emit;
  /** Bytes held for readers of a fill that the store no longer takes. */
  readonly windowBytes: number;
}

/** An entry that is to be validated, and whether it may be served if the origin fails. */
export interface Candidate {
  readonly entry: StoredEntry;
  readonly mayServeStale: boolean;
}

interface Received {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Asks the origin and lands. `signal` ends the transfer. Throws `ProxyError`. */
export async function exchange(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  signal: AbortSignal,
): Promise<Landing> {
  const conditions = candidate === undefined ? [] : conditionalFields(candidate.entry.metadata);
  let received: Received;
  try {
    received = await ask(context, inquiry, conditions, signal);
  } catch (thrown) {
    const error = toProxyError(thrown);
    if (candidate?.mayServeStale !== true) throw error;
    return { kind: 'stale', entry: candidate.entry, failure: error };
  }
  const { response } = received;
  if (candidate !== undefined && response.status >= 500 && candidate.mayServeStale) {
    response.body.close();
    return { kind: 'stale', entry: candidate.entry, failure: response.status };
  }
  if (candidate !== undefined && response.status === 304) {
    response.body.close();
    const entry = await freshen(context, inquiry, candidate.entry, received);
    if (entry !== undefined) return { kind: 'revalidated', entry };
    return await landWhole(context, inquiry, candidate, await ask(context, inquiry, [], signal));
  }
  return await landWhole(context, inquiry, candidate, received);
}

async function ask(
  context: ExchangeContext,
  inquiry: Inquiry,
  conditions: Fields,
  signal: AbortSignal,
): Promise<Received> {
  const requestAt = context.clock.now();
  const response = await inquiry.origin.fetch({
    method: 'GET',
    target: inquiry.originTarget,
    fields: [...fillFields(inquiry.originFields), ...conditions],
    body: undefined,
    bodySizeBytes: undefined,
    signal,
    onInterim: inquiry.onInterim,
  });
  return { response, requestAt, responseAt: context.clock.now() };
}

/** RFC 9111 §4.3.4. Undefined when the 304 is not about this entry, or the entry is gone. */
async function freshen(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  { response, requestAt, responseAt }: Received,
): Promise<StoredEntry | undefined> {
  if (!mayFreshen(entry.metadata, response.fields)) return undefined;
  const metadata = freshened(entry.metadata, response, requestAt, responseAt);
  // The 304 may have taken back what allowed the response to be stored. What this request said is no matter of the entry.
  const decision = decideStoring({
    request: { method: 'GET', fields: [] },
    response: metadata,
    policy: inquiry.policy,
  });
  if (decision.kind === 'refuse') {
    await context.store.removeEntry(entry);
    return undefined;
  }
  return await context.store.replaceMetadata(entry, metadata);
}

async function landWhole(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  received: Received,
): Promise<Landing> {
  const { response, requestAt, responseAt } = received;
  if (response.status === 206 || response.status === 304) {
    response.body.close();
    throw new ProxyError('origin_ill_framed', {
      detail: `status ${response.status} to a request without Range or condition`,
    });
  }
  const relay = (reason: string): Landing => ({
    kind: 'relay',
    relay: { response, requestAt, responseAt, evaluated: false },
    reason,
  });
  const decision = decideStoring({
    request: { method: 'GET', fields: inquiry.originFields },
    response: { status: response.status, fields: response.fields, responseAt },
    policy: inquiry.policy,
  });
  if (decision.kind === 'refuse') return relay(decision.reason);
  if (response.framing === 'close' && inquiry.policy.closeDelimited === 'relay') return relay('close-delimited');

  const stored = describe(inquiry, received);
  const variant = formatVariant(stored.nominated);
  const previous = candidate?.entry.variant === variant ? candidate.entry : undefined;
  try {
    const writer = await context.store.openWriter({
      key: inquiry.key,
      variant,
      metadata: stored,
      sizeBytes: response.sizeBytes,
    });
    return {
      kind: 'fill',
      fill: startFill(context, inquiry, { response, stored, variant, previous, writer }),
      status: response.status,
    };
  } catch (thrown) {
    if (!(thrown instanceof StoreFault)) throw thrown;
    return relay(thrown.reason === 'too_large' ? 'too-large' : 'store-unavailable');
  }
}

/** What is stored of a response besides its bytes. */
function describe(inquiry: Inquiry, { response, requestAt, responseAt }: Received): StoredResponse {
  return {
    status: response.status,
    fields: storableFields(response.fields, responseAt),
    nominated: nominatedFields(response.fields, fillFields(inquiry.originFields)),
    requestAt,
    responseAt,
  };
}

interface Beginning {
  readonly response: OriginResponse;
  readonly stored: StoredResponse;
  readonly variant: string;
  /** The generation that these bytes may turn out to be. */
  readonly previous: StoredEntry | undefined;
  readonly writer: EntryWriter;
}

function startFill(context: ExchangeContext, inquiry: Inquiry, beginning: Beginning): Fill {
  const { response, stored, previous, writer } = beginning;
  const startedAt = context.clock.now();
  const isOurs = stored.status === 200 && !hasValidator(stored.fields);
  const ownEntityTag = `"rw-${writer.generation}"`;
  // Until the last byte has come, a refetch may turn out to be the generation that is stored: no tag is claimed for it.
  const isUndecided = isOurs && previous?.metadata.ownEntityTag !== undefined;
  const fill = new Fill({
    response: isOurs && !isUndecided ? { ...stored, ownEntityTag } : stored,
    body: response.body,
    sizeBytes: response.sizeBytes,
    writer,
    blockSizeBytes: context.store.blockSizeBytes,
    windowBytes: context.windowBytes,
    onAbort: inquiry.policy.onAbort,
    wantsDigest: isOurs,
    commit: async ({ sizeBytes, digest }) => {
      if (digest !== undefined && previous !== undefined && digest === previous.metadata.bodyDigest) {
        const { ownEntityTag: keptTag } = previous.metadata;
        const metadata = { ...stored, bodyDigest: digest, ...(keptTag === undefined ? {} : { ownEntityTag: keptTag }) };
        if ((await context.store.replaceMetadata(previous, metadata)) !== undefined) return 'same';
      }
      const metadata = digest === undefined ? stored : { ...stored, ownEntityTag, bodyDigest: digest };
      await writer.commit({ metadata, sizeBytes });
      return 'stored';
    },
    onEnd: ({ result, bytes, error }) =>
      context.emit({
        kind: 'fill',
        key: inquiry.key,
        generation: writer.generation,
        bytes,
        result,
        durationMs: context.clock.now() - startedAt,
        error: error?.code,
        errorDetail: error?.detail,
      }),
    onStoreFault: (fault) =>
      context.emit({
        kind: 'store',
        level: 'warn',
        message: `The rest of a fill is relayed without being stored: ${fault.message}`,
        detail: inquiry.key,
      }),
  });
  void fill.run();
  return fill;
}

function hasValidator(fields: Fields): boolean {
  return hasField(fields, 'etag') || hasField(fields, 'last-modified');
}
