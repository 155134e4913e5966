/**
 * Explains which response a request would get from a known representation (its range plan), and where the bytes of its body
 * would come from. Adds that to the explanation of the cache.
 */

import { type Span, spanSize } from '../bytes/span.ts';
import {
  type BytePiece,
  type BytePlan,
  type CacheExplanation,
  type Explained,
  planBytes,
  type Subject,
} from '../cache/explain/explanation.ts';
import { formatPart } from '../cache/fill/part-source.ts';
import { isOpenEnded } from '../cache/inquiry.ts';
import { fieldLines, hasField } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { errorKinds } from '../http/proxy-error.ts';
import { evaluatePreconditions, type PreconditionOutcome } from '../semantics/precondition.ts';
import { hasOtherUnit, parseRange, selectBeforeLength } from '../semantics/range.ts';
import { type DeliveryContext, frameParts, type RangeRules, type Selection, selectDelivery } from './selection.ts';

/** How a Range field is treated. */
export interface RangeReading {
  readonly value: string;
  /** Undefined while there is no known representation to select ranges from. */
  readonly isObeyed?: boolean | undefined;
  /** Why the Range is ignored: one word for each cause (RFC 9110 §13.1.5, §14.2). */
  readonly reason?: string | undefined;
}

/** A span of the body, and how many of its bytes are stored here, are brought by a running fill, and have to be fetched. */
export interface SpanPlan extends Span {
  readonly hereBytes: number;
  readonly inFlightBytes: number;
  readonly originBytes: number;
  /** The runs of the span, in order. `isCut`: there are more runs, which are not in the sums. */
  readonly pieces: readonly BytePiece[];
  readonly isCut: boolean;
}

/** The response that a request would get. */
export interface RangePlan {
  /** Undefined where it depends on the origin or on the length of the whole. */
  readonly status?: number | undefined;
  readonly range?: RangeReading | undefined;
  /** The names of the precondition fields; `outcome` is their result. */
  readonly conditions: readonly string[];
  readonly outcome?: PreconditionOutcome['kind'] | undefined;
  readonly isMultipart: boolean;
  /** The spans of the body; empty where the body does not come from the representation, or its length is unknown. */
  readonly spans: readonly SpanPlan[];
  /** What the origin would be asked for the absent bytes: values of Range, or `whole`. */
  readonly asked: readonly string[];
}

/** The number of runs that are listed for one span. */
const MAX_PIECES = 200;

/** Fields whose conditions are evaluated here (RFC 9110 §13.1). */
const conditionNames = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'if-range'];

type PlannedRequest = Pick<ProxyRequest, 'method' | 'fields'>;

/** Plans the response to a request from this representation; `subject` is undefined where it is unknown. */
function planRange(
  request: PlannedRequest,
  subject: Subject | undefined,
  context: Omit<DeliveryContext, 'sendsDigest'>,
): RangePlan {
  const conditions = conditionNames.filter((name) => hasField(request.fields, name));
  const range = readRange(request, context.rules);
  if (subject === undefined) return { range, conditions, isMultipart: false, spans: [], asked: [] };
  if (subject.fragmentSpan !== undefined) return { ...planFragment(subject.fragmentSpan, range), conditions };
  const { response, outlook } = subject;
  const now = context.clock.now();
  const outcome = evaluatePreconditions(request, response, now);
  const selection = selectDelivery(request, response, outlook.sizeBytes, context.rules, now);
  const isMultipart = selection.kind === 'partial' && selection.spans.length > 1;
  const isTooCostly =
    selection.kind === 'partial' && isMultipart && frameParts(selection, response, context.random) === undefined;
  const planned: Selection = isTooCostly ? { kind: 'whole' } : selection;
  return {
    status: statusOf(planned, response.status),
    range: range === undefined ? undefined : readOutcome(range, request, outcome, response.status, isTooCostly),
    conditions,
    outcome: outcome.kind,
    isMultipart: isMultipart && !isTooCostly,
    ...planBody(
      bodySpans(request, planned, outlook.sizeBytes),
      subject,
      isOpenEnded({ request, originFields: request.fields }),
    ),
  };
}

function planFragment(span: Span, range: RangeReading | undefined): Omit<RangePlan, 'conditions'> {
  const plan = spanPlanOf(span, { pieces: [{ ...span, from: 'here' }], asked: [], isCut: false });
  return {
    status: 206,
    range: range === undefined ? undefined : { ...range, isObeyed: true },
    isMultipart: false,
    spans: [plan],
    asked: [],
  };
}

/** Reads the Range field, without a representation. */
function readRange({ method, fields }: PlannedRequest, rules: RangeRules): RangeReading | undefined {
  const lines = fieldLines(fields, 'range');
  const [value] = lines;
  if (value === undefined) return undefined;
  const ignored = (reason: string) => ({ value: lines.join(', '), isObeyed: false, reason });
  if (hasOtherUnit(fields)) return ignored('unknown-unit');
  if (lines.length > 1) return ignored('repeated');
  if (method !== 'GET') return ignored('method');
  const parsed = parseRange(value, rules);
  return parsed.kind === 'ignored' ? ignored(parsed.reason) : { value };
}

/** Decides whether the Range applies to this representation. */
function readOutcome(
  range: RangeReading,
  { fields }: PlannedRequest,
  outcome: PreconditionOutcome,
  status: number,
  isTooCostly: boolean,
): RangeReading {
  if (range.isObeyed === false) return range;
  if (isTooCostly) return { ...range, isObeyed: false, reason: 'costs-more-than-whole' };
  if (outcome.kind !== 'proceed') return { ...range, isObeyed: false, reason: 'condition' };
  if (outcome.range === 'apply') return { ...range, isObeyed: true };
  return { ...range, isObeyed: false, reason: status === 200 && hasField(fields, 'if-range') ? 'if-range' : 'status' };
}

function statusOf(selection: Selection, status: number): number | undefined {
  switch (selection.kind) {
    case 'whole':
      return status;
    case 'partial':
      return 206;
    case 'unsatisfiable':
      return 416;
    case 'not-modified':
      return 304;
    case 'precondition-failed':
      return 412;
    case 'undecided':
      return undefined;
  }
}

/** The spans of the body that are read, as far as their ends are known. */
function bodySpans({ method }: PlannedRequest, selection: Selection, sizeBytes: number | undefined): readonly Span[] {
  if (method === 'HEAD') return [];
  switch (selection.kind) {
    case 'whole':
      return sizeBytes === undefined ? [] : [{ start: 0, end: sizeBytes }];
    case 'partial':
      return selection.spans;
    case 'undecided': {
      const early = selectBeforeLength(selection.specs);
      return early.kind === 'span' ? [early.span] : [];
    }
    default:
      return [];
  }
}

function planBody(spans: readonly Span[], { outlook }: Subject, isOpen: boolean): Pick<RangePlan, 'spans' | 'asked'> {
  const openFrom = isOpen ? spans[0]?.start : undefined;
  const plans = spans.map((span) => ({ span, plan: planBytes(span, outlook, MAX_PIECES, openFrom) }));
  const asked = plans.flatMap(({ plan }) => plan.asked).map((part) => formatAsked(part, outlook.sizeBytes));
  return { spans: plans.map(({ span, plan }) => spanPlanOf(span, plan)), asked: [...new Set(asked)] };
}

function formatAsked(part: Span, sizeBytes: number | undefined): string {
  return Number.isFinite(part.end) ? formatPart(part, sizeBytes) : 'whole';
}

function spanPlanOf({ start, end }: Span, { pieces, isCut }: BytePlan): SpanPlan {
  const bytes = { here: 0, 'in-flight': 0, origin: 0 };
  for (const piece of pieces) bytes[piece.from] += spanSize(piece);
  return {
    start,
    end,
    hereBytes: bytes.here,
    inFlightBytes: bytes['in-flight'],
    originBytes: bytes.origin,
    pieces,
    isCut,
  };
}

/** The explanation of a request: plain data. In JSON, undefined members are absent. */
export interface Explanation extends CacheExplanation {
  /** The version of this format. */
  readonly version: 1;
  /** When it was made, in epoch milliseconds. */
  readonly at: number;
  readonly method: string;
  /** The target URI, as received. */
  readonly uri: string;
  /** The name of the route. */
  readonly route: string;
  readonly plan: RangePlan;
  /**
   * The segments that the request would have fetched into the store, those that are stored already included: targets, with their
   * ranges. Undefined where nothing is prefetched, or no known playlist lists the request.
   */
  readonly prefetch?: readonly string[] | undefined;
}

/** Adds the plan of the response to the explanation of the cache. */
export function explainResponse(
  {
    method,
    scheme,
    authority,
    target,
    fields,
  }: Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'target' | 'fields'>,
  route: string,
  { explanation, subject }: Explained,
  context: DeliveryContext,
): Explanation {
  const plan = planRange({ method, fields }, subject, context);
  return {
    version: 1,
    at: context.clock.now(),
    method,
    uri: `${scheme}://${authority}${target}`,
    route,
    ...explanation,
    plan: explanation.decision.kind === 'refuse' ? refused(plan) : plan,
  };
}

/** The plan where only a stored response is wanted, and none may be used. */
function refused(plan: RangePlan): RangePlan {
  return { ...plan, status: errorKinds.not_in_cache.status, isMultipart: false, spans: [], asked: [] };
}
