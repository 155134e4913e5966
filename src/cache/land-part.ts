/** What becomes of a response to a Range: a generation, where parts may be combined, a fragment, or neither. */

import { fieldValue, withoutFields } from '../http/fields.ts';
import { parseContentRange, parseUnsatisfiedRange } from '../semantics/content-range.ts';
import { contentDigestFields, selectContentDigest } from '../semantics/digest.ts';
import { formatRange, type RangeSpec, selectRanges } from '../semantics/range.ts';
import { strongValidator } from '../semantics/validator.ts';
import { ask } from './ask.ts';
import { hasPrecondition, rangeSpecs } from './asked.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { isBehind, isOtherPart, isWholeRange, selectFirstAsk, selectFirstPart } from './first-ask.ts';
import type { Clearance, Landing } from './flight.ts';
import type { Inquiry } from './inquiry.ts';
import { keepFragment } from './keep-fragment.ts';
import { landWhole } from './land-whole.ts';
import type { Received } from './open-generation.ts';

/** Asks for a part and lands, where a client wants a range and the origin may have ranges; undefined elsewhere. */
export async function askForPart(
  context: ExchangeContext,
  inquiry: Inquiry,
  clearance: Clearance,
): Promise<Landing | undefined> {
  const asked = selectPart(inquiry, context.store.blockSizeBytes);
  if (asked === undefined) return undefined;
  const { spec, isTail } = asked;
  const received = await ask(context, inquiry, [['range', formatRange([spec])]], clearance);
  const land = isTail ? landTail : landPart;
  return await land(context, inquiry, spec, received, clearance);
}

/** Which part is asked for where nothing is stored: the tail as the client wants it, or blocks; undefined for the whole. */
export function selectPart(
  inquiry: Inquiry,
  blockSizeBytes: number,
): { readonly spec: RangeSpec; readonly isTail: boolean } | undefined {
  const tail = selectTail(inquiry, blockSizeBytes);
  if (tail !== undefined) return { spec: tail, isTail: true };
  const { openRanges } = inquiry.policy.fill;
  const { mayAsk } = inquiry.rangeAbility;
  const spec = mayAsk ? selectFirstAsk(rangeSpecs(inquiry), blockSizeBytes, openRanges) : undefined;
  return spec === undefined ? undefined : { spec, isTail: false };
}

/**
 * The Range of a client that wants the end of a representation, less than a block, where it is to be passed on as it is:
 * whatever the origin gives of it can then be given to the client, although it may be of no use for anything else.
 */
function selectTail(inquiry: Inquiry, blockSizeBytes: number): RangeSpec | undefined {
  const [spec, ...more] = rangeSpecs(inquiry);
  const isTail = spec?.kind === 'suffix' && spec.length <= blockSizeBytes && more.length === 0;
  return isTail && inquiry.rangeAbility.mayAskTail && !hasPrecondition(inquiry) ? spec : undefined;
}

/** What came for the end of a representation: a 206 that no generation can be begun with is passed on and kept as it is. */
async function landTail(
  context: ExchangeContext,
  inquiry: Inquiry,
  asked: RangeSpec,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  const { response, responseAt } = received;
  const part = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  const isFragment =
    response.status === 206 && part?.sizeBytes !== undefined && !isOtherPart(asked, part, response.sizeBytes);
  if (!isFragment || selectFirstPart(asked, response, responseAt, context.store.blockSizeBytes).kind === 'part') {
    return await landPart(context, inquiry, asked, received, clearance);
  }
  const isNamed = strongValidator({ fields: response.fields, responseAt }, responseAt) !== undefined;
  if (isNamed) inquiry.rangeAbility.noteParts();
  else inquiry.rangeAbility.noteUnnamed();
  const fragment = { range: formatRange([asked]), start: part.span.start, wholeBytes: part.sizeBytes };
  const kept = keepFragment(context, inquiry, received, fragment, clearance);
  if (kept === undefined) context.refusals.note(inquiry.key, { reason: 'part', status: 206, at: responseAt });
  const relay = { ...received, response: { ...response, body: kept?.body ?? response.body }, evaluated: true };
  return { kind: 'relay', relay, reason: 'part', kept: kept?.kept };
}

/** What came for a part: it becomes a generation where parts of it may be combined (RFC 9111 §3.3, §3.4). */
async function landPart(
  context: ExchangeContext,
  inquiry: Inquiry,
  asked: RangeSpec,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  const { response, responseAt } = received;
  const { rangeAbility } = inquiry;
  // Some origins send a 200 when the range is the whole, and all do when there are no bytes.
  if (response.status === 200 && !isWholeRange(asked, response.sizeBytes)) rangeAbility.noteWhole();
  if (response.status === 416) return await landUnsatisfied(context, inquiry, received, clearance);
  if (response.status !== 206) return await landWhole(context, inquiry, undefined, received, clearance);
  const part = selectFirstPart(asked, response, responseAt, context.store.blockSizeBytes);
  if (part.kind === 'refuse') {
    response.body.close();
    if (part.isLie) rangeAbility.distrust(part.reason);
    else rangeAbility.noteUnnamed();
    return await landWhole(context, inquiry, undefined, await ask(context, inquiry, [], clearance), clearance);
  }
  rangeAbility.noteParts();
  const fields = withoutFields(response.fields, partFields);
  const whole = { ...received, response: { ...response, status: 200, fields, sizeBytes: part.sizeBytes } };
  const landing = await landWhole(context, inquiry, undefined, whole, clearance, {
    from: part.span.start,
    end: part.span.end,
    isWhole: false,
    hasSureEnd: response.framing !== 'close',
    digest: selectContentDigest(response.fields),
  });
  if (landing.kind !== 'relay') return landing;
  // It is not to be stored, and holds other bytes than the client wants.
  response.body.close();
  return { kind: 'unusable', reason: landing.reason };
}

/** Fields of a 206 that say nothing of the whole. */
const partFields = new Set(['content-range', 'content-length', ...contentDigestFields]);

/**
 * A 416 that tells the length is believed and passed on, where no range and no condition of the client says otherwise;
 * after any other one the whole is asked for.
 */
async function landUnsatisfied(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  const { fields, body } = received.response;
  const sizeBytes = parseUnsatisfiedRange(fieldValue(fields, 'content-range') ?? '');
  const specs = rangeSpecs(inquiry);
  const isRight =
    sizeBytes !== undefined && selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 }).kind === 'unsatisfiable';
  if (isRight && !hasPrecondition(inquiry)) {
    context.refusals.note(inquiry.key, { reason: 'status', status: 416, at: received.responseAt });
    return { kind: 'relay', relay: { ...received, evaluated: true }, reason: 'status' };
  }
  body.close();
  const whole = await ask(context, inquiry, [], clearance);
  const { status, sizeBytes: wholeBytes = 0 } = whole.response;
  if (status === 200 && !specs.slice(0, 1).every((spec) => isBehind(spec, wholeBytes))) {
    inquiry.rangeAbility.distrust('it answered 416 to a range that it has bytes of');
  }
  return await landWhole(context, inquiry, undefined, whole, clearance);
}
