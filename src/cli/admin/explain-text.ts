/**
 * An explanation in words: the sections that `rangeway explain` prints, and that the dashboard shows. The sentences for decisions
 * and refusals are here. Nothing here needs Node.
 */

import type {
  ChosenExplanation,
  Decision,
  EntryExplanation,
  FlightExplanation,
} from '../../cache/explain/explanation.ts';
import type { Explanation, RangePlan, RangeReading, SpanPlan } from '../../delivery/explanation.ts';
import { type Fields, wireFieldName } from '../../http/fields.ts';
import { duration, formatSections, replaceTerminalControls, type Section } from '../text-sections.ts';

/** The most runs of bytes that are printed in one line. */
const MAX_RUNS = 8;

/** Formats an explanation as sections of text; the last line ends with a line feed. */
export function formatExplanation(explanation: Explanation): string {
  const { method, uri } = explanation;
  return replaceTerminalControls(`${method} ${uri}\n\n${formatSections(explanationSections(explanation))}`);
}

/** Returns the sections of an explanation; those without lines do not apply. Values of fields are as clients and origins sent them. */
export function explanationSections(explanation: Explanation): readonly Section[] {
  const { chosen, plan, flights } = explanation;
  return [
    { label: 'decision', lines: decisionLines(explanation) },
    { label: 'response', lines: responseLines(explanation) },
    { label: 'route', lines: [explanation.route] },
    { label: 'key', lines: [explanation.key] },
    {
      label: 'variant',
      lines: explanation.variant.map(([name, value]) => `${wireName(name)}: ${value ?? '(not sent)'}`),
    },
    { label: 'stored', lines: storedLines(explanation) },
    ...(chosen === undefined ? [] : chosenSections(chosen)),
    { label: 'conditions', lines: conditionLines(plan) },
    { label: 'range', lines: plan.range === undefined ? [] : [`${plan.range.value}: ${describeRange(plan.range)}`] },
    { label: 'origin', lines: originLines(explanation) },
    { label: 'in flight', lines: flights.map(flightLine) },
    { label: 'not stored', lines: refusalLines(explanation) },
    { label: 'prefetch', lines: prefetchLines(explanation) },
  ];
}

function decisionLines({ decision, originQuestion, at }: Explanation): string[] {
  const { kind, cacheStatus, serveStaleUntil } = decision;
  const lines = [`${kind}: ${describeDecision(decision)}`];
  if (kind === 'revalidate' && originQuestion?.fields.length === 0)
    lines.push('it has no validator, and is fetched anew');
  if (serveStaleUntil !== undefined) {
    lines.push(`if the origin fails it is served stale, for ${duration(serveStaleUntil - at)} more`);
  }
  if (cacheStatus !== undefined) lines.push(`Cache-Status: ${cacheStatus}`);
  return lines;
}

function responseLines({ decision, plan, chosen }: Explanation): string[] {
  const { status, spans, isMultipart } = plan;
  if (status === undefined && spans.length === 0) {
    const isArriving = decision.kind === 'join' && chosen !== undefined;
    return [isArriving ? 'known when more of it has arrived' : 'known when the origin has answered'];
  }
  const whole = chosen?.fragment?.wholeBytes ?? chosen?.sizeBytes;
  const bytes = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  const size = spans.length === 0 ? '' : `, ${bytes} of ${whole ?? 'an unknown number of'} bytes`;
  const head = `${status ?? '206 once its bytes are there'}${isMultipart ? ' multipart/byteranges' : ''}${size}`;
  const condition = decision.kind === 'revalidate' ? 'if what is stored is still current: ' : '';
  return [condition + head, ...spans.map(spanLine), ...askedLines(plan.asked)];
}

function spanLine({ start, end, hereBytes, inFlightBytes, originBytes, pieces, isCut }: SpanPlan): string {
  const sums = [
    hereBytes > 0 ? `${hereBytes} here` : '',
    inFlightBytes > 0 ? `${inFlightBytes} in flight` : '',
    originBytes > 0 ? `${originBytes} to fetch` : '',
  ];
  const runs = pieces.length > 1 ? ` (${runsText(pieces, ({ from }) => `${pieceNames[from]} `)})` : '';
  const text = sums.filter((sum) => sum !== '').join(', ');
  return `bytes ${wireSpan({ start, end })}: ${text === '' ? 'none' : text}${runs}${isCut ? ', and more' : ''}`;
}

const pieceNames = { here: 'here', 'in-flight': 'in flight', origin: 'to fetch' } as const;

function askedLines(asked: readonly string[]): string[] {
  if (asked.length === 0) return [];
  const shown = asked.slice(0, MAX_RUNS).map((range) => (range === 'whole' ? 'the whole' : range));
  return [`the origin would be asked for ${shown.join(', ')}${asked.length > shown.length ? ' and more' : ''}`];
}

function storedLines({ entries, entryCount }: Explanation): string[] {
  if (entryCount === 0) return ['nothing under this key'];
  const more = entryCount > entries.length ? [`and ${entryCount - entries.length} more`] : [];
  return [...entries.map(entryLine), ...more];
}

function entryLine(entry: EntryExplanation): string {
  const { generation, status, sizeBytes, isComplete, isFragment, differs, isUsable, isChosen, pinnedUntil } = entry;
  const extent = isFragment ? 'a fragment' : isComplete ? 'complete' : 'in part';
  const notes = [
    isChosen ? 'this one' : undefined,
    pinnedUntil === undefined ? undefined : 'replaced, kept for clients that resume',
    differs.length === 0 ? undefined : `differs in ${differs.map(wireName).join(', ')}`,
    isUsable || isFragment ? undefined : 'cannot be completed: it has no strong validator',
  ];
  const text = notes.filter((note) => note !== undefined).join('; ');
  return `${generation}: ${status}, ${sizeBytes} bytes, ${extent}${text === '' ? '' : ` (${text})`}`;
}

function chosenSections(chosen: ChosenExplanation): Section[] {
  const { present, sizeBytes, isComplete, tags, isInvalid, expiredAt } = chosen;
  const bytes = `${present.bytes} of ${sizeBytes ?? 'an unknown number'} here`;
  return [
    { label: 'bytes', lines: isComplete ? [] : [present.runs === 0 ? bytes : `${bytes}: ${runsText(present.spans)}`] },
    { label: 'freshness', lines: freshnessLines(chosen) },
    { label: 'validators', lines: validatorLines(chosen) },
    { label: 'shared', lines: [sharedLine(chosen)] },
    { label: 'tags', lines: tags.length === 0 ? [] : [tags.join(' ')] },
    {
      label: 'state',
      lines: [
        ...(isInvalid ? ['a later response has shown that it changed at the origin'] : []),
        ...(expiredAt === undefined ? [] : ['its lifetime was ended by a soft purge']),
      ],
    },
  ];
}

/** Says which clients share a response. A stated lifetime lets all clients share it. */
function sharedLine({ boundTo }: ChosenExplanation): string {
  if (boundTo === undefined) return 'with all clients';
  const names = boundTo.map(wireName).join(', ');
  return names === ''
    ? 'with anonymous clients only: no stated lifetime permits more'
    : `with requests that have the same ${names} only: no stated lifetime permits more`;
}

function freshnessLines({ freshness }: ChosenExplanation): string[] {
  const { lifetimeMs, source, field, age, ttlMs, stale } = freshness;
  const from =
    field === undefined || source === field ? (lifetimeSources[source] ?? source) : `${source} in ${wireName(field)}`;
  const arrived = Math.max(age.apparentAgeMs, age.ageFieldMs + age.responseDelayMs);
  const terms = `Age ${duration(age.ageFieldMs)} + delay ${duration(age.responseDelayMs)}, or by Date ${duration(age.apparentAgeMs)}`;
  const rows: [string, string][] = [
    [`  ${duration(lifetimeMs)}`, `lifetime: ${from}`],
    [`- ${duration(arrived)}`, `age when it came: ${terms}`],
    [`- ${duration(age.residentMs)}`, 'since then'],
    [`= ${duration(ttlMs)}`, ttlMs > 0 ? 'left' : 'it is stale'],
  ];
  const width = Math.max(...rows.map(([sum]) => sum.length));
  return [...rows.map(([sum, text]) => `${sum.padEnd(width)}  ${text}`), staleLine(stale)];
}

const lifetimeSources: Readonly<Record<string, string>> = {
  override: 'the operator overrides it (cache.overrideTtlByStatus)',
  expires: 'Expires',
  default: 'the operator gives it (cache.defaultTtlSeconds, cache.defaultTtlByStatus)',
  heuristic: 'a tenth of the time since Last-Modified',
  'range-reuse': 'none is stated, and ranges reuse it (cache.rangeReuseSeconds)',
  none: 'none is stated',
};

function staleLine({ whileRevalidateMs, ifErrorMs, forbiddenBy }: ChosenExplanation['freshness']['stale']): string {
  if (forbiddenBy !== undefined) return `stale: forbidden by ${describeStaleBan(forbiddenBy)}`;
  return `stale: ${duration(whileRevalidateMs)} while it is validated, ${duration(ifErrorMs)} when the origin fails`;
}

function validatorLines({ validators }: ChosenExplanation): string[] {
  const { entityTag, lastModified, combinedBy, conditions } = validators;
  const owners = { origin: "the origin's", rangeway: "Rangeway's own" } as const;
  const lines: string[] = [];
  if (entityTag !== undefined) lines.push(`ETag ${entityTag.value}: ${entityTag.strength}, ${owners[entityTag.owner]}`);
  if (lastModified !== undefined) lines.push(`Last-Modified ${lastModified.value}: ${lastModified.strength}`);
  lines.push(combinedBy === undefined ? 'parts cannot be combined' : `parts are combined by ${combinedBy}`);
  lines.push(
    conditions.length === 0
      ? 'the origin cannot be asked whether it is current'
      : `validated with ${fieldsText(conditions)}`,
  );
  return lines;
}

function conditionLines({ conditions, outcome }: RangePlan): string[] {
  if (conditions.length === 0) return [];
  const outcomes = {
    proceed: 'the response is sent',
    'not-modified': 'not modified',
    'precondition-failed': 'failed',
  } as const;
  return [`${conditions.map(wireName).join(', ')}${outcome === undefined ? '' : `: ${outcomes[outcome]}`}`];
}

const manners = {
  once: 'one request brings all of an open range, because the URL may refuse another one',
  'parts-only': 'it has given parts but not the whole, so ranges are passed on as they are',
} as const;

function describeAbility({ isKnown, mayAsk, mayAskMore, refusal }: Explanation['origin']): string {
  if (refusal !== undefined) return `it is not asked for ranges for a while: ${refusal}`;
  if (isKnown) return 'it gives ranges';
  if (mayAsk && !mayAskMore)
    return 'it has sent the whole in place of a part, and is asked for no further part for a while';
  return mayAsk ? 'not known whether it gives ranges' : 'it is not asked for ranges';
}

function originLines({ origin, originQuestion }: Explanation): string[] {
  const { manner } = origin;
  const ability = describeAbility(origin) + (manner === undefined ? '' : `; ${manners[manner]}`);
  if (originQuestion === undefined) return [ability];
  const { method, target, fields } = originQuestion;
  return [`asked ${method} ${target}${fields.length === 0 ? '' : ` with ${fieldsText(fields)}`}`, ability];
}

function flightLine({
  hasLanded,
  generation,
  sizeBytes,
  receivedBytes,
  readers,
  transfers,
}: FlightExplanation): string {
  if (!hasLanded || generation === undefined) return 'a request to the origin that is not answered yet';
  const running = transfers.map(({ at, end }) => `from byte ${at} to ${end ?? 'the end'}`);
  const transfer = running.length === 0 ? 'nothing under way' : running.join(', ');
  return `${generation}: ${receivedBytes} bytes received of ${sizeBytes ?? 'an unknown number'}, ${transfer}, ${readers} reading`;
}

function refusalLines({ notStored }: Explanation): string[] {
  if (notStored === undefined) return [];
  const { status, reason, agoMs } = notStored;
  const response = `the last response${status === undefined ? '' : ` (${status})`}`;
  return [`${response}, ${duration(agoMs)} ago: ${describeRefusal(reason)}`];
}

function prefetchLines({ prefetch }: Explanation): string[] {
  if (prefetch === undefined) return [];
  if (prefetch.length === 0) return ['nothing: it is the last segment of its playlist'];
  return [`the next segments of its playlist: ${prefetch.join(', ')}`];
}

function fieldsText(fields: Fields): string {
  return fields.map(([name, value]) => `${wireName(name)}: ${value}`).join(', ');
}

/** Returns the name as it is printed. A cookie of the key is shown as `cookie NAME`. */
function wireName(name: string): string {
  return name.startsWith('cookie:') ? `cookie ${name.slice('cookie:'.length)}` : wireFieldName(name);
}

/** Formats a span as Range does, with an inclusive last position. */
function wireSpan({ start, end }: { readonly start: number; readonly end: number }): string {
  return `${start}-${end - 1}`;
}

function runsText<T extends { readonly start: number; readonly end: number }>(
  runs: readonly T[],
  prefix: (run: T) => string = () => '',
): string {
  const shown = runs.slice(0, MAX_RUNS).map((run) => `${prefix(run)}${wireSpan(run)}`);
  return shown.join(', ') + (runs.length > shown.length ? ', …' : '');
}

/** Sentences by the kind and reason of a decision, or by its kind alone. */
const decisions: Readonly<Record<string, string>> = {
  'hit fresh': 'what is stored is fresh',
  'hit fragment': 'a stored fragment holds the bytes of the request',
  'hit pinned': 'a replaced version is kept for clients that resume',
  'stale pinned': 'a replaced version is kept for clients that resume',
  'stale request': 'what is stored is stale, and the request accepts that',
  'stale-while-revalidate': 'what is stored is stale, and is validated while it is served',
  complete: 'what is stored holds a part of what is wanted; the rest is fetched',
  join: 'another request has asked the origin already, and this one waits for it',
  'revalidate stale': 'what is stored is stale',
  'revalidate invalid': 'what is stored is known to have changed at the origin',
  'revalidate response': 'what is stored must be validated before each use',
  'revalidate request': 'the request demands a validation',
  'fill uri-miss': 'nothing is stored under this key',
  'fill vary-miss': 'nothing that is stored under this key can be used for this request',
  'pass method': 'no stored response answers this method',
  'pass connection-auth':
    'its origin authenticates connections (NTLM, Negotiate): the client has one of its own, and nothing is stored',
  'pass bypass': 'the route sends it past the cache',
  'pass range-field': 'it has a range in a field of a service, which a stored response cannot answer',
  'pass range-unit': 'its Range is in another unit than bytes, which only the application knows',
  'pass request': 'the request forbids storing its response',
  'pass unshared': 'a recent response could not be shared, so requests pass for a while (hit-for-pass)',
  'pass few-uses': 'it was not requested often enough to be stored',
  'pass behind-end':
    'its range begins behind the end of what is stored without a stated lifetime, and the file may have grown',
  'pass refused-whole': 'what is stored is an error that the origin may give only to requests without Range',
  'pass store-unavailable': 'what is stored is incomplete, and other readers hold it open',
  refuse: 'the request accepts only a stored response, and none may be used',
};

/** Returns the sentence for a decision, with the directive that caused it. */
export function describeDecision({ kind, reason, directive }: Decision): string {
  const sentence = decisions[`${kind} ${reason}`] ?? decisions[kind] ?? reason;
  return directive === undefined ? sentence : `${sentence} (${directive})`;
}

const refusals: Readonly<Record<string, string>> = {
  authorization: 'it answers a request with Authorization, and does not say that it may be shared',
  bypass: 'the route sends such requests past the cache',
  'parts-only': 'the origin gives parts of it, but not the whole',
  'unasked-part': 'it is a part, though the request had no Range',
  'behind-end': 'its range began behind the end, so the origin answered it',
  'connection-auth': 'it came over a connection that its origin authenticates (NTLM, Negotiate)',
  'close-delimited':
    'the end of its connection is its end, and the route does not store such responses (origin.closeDelimited)',
  'digest-mismatch': 'its bytes do not match its digest',
  'few-uses': 'it was not requested often enough (cache.storeAfterUses)',
  origin_refused_rest: 'the origin refused to give the rest of it',
  generation_changed: 'it changed at the origin while it was transferred',
  method: 'no stored response answers this method',
  'no-freshness': 'it could never be reused: it has neither a lifetime nor a validator',
  'no-store': 'it has no-store',
  'origin-failure': 'it is a failure of the origin, and what is stored may be served in its place',
  origin_body_short: 'the origin sent fewer bytes than it promised',
  origin_reset: 'the origin broke it off',
  origin_tls_truncated: 'it ended with its connection, and TLS was closed without close_notify',
  origin_timeout: 'the origin stopped sending',
  outdated: 'it was invalidated, or a later one stored, while it was on its way',
  part: 'it is a part that cannot be combined with others',
  private: 'it has private',
  provoked: 'it is an error that fields of the request may have provoked',
  'range-field': 'it answers a range in a field of a service',
  'range-unit': 'it answers a Range in another unit than bytes',
  request: 'the request has no-store',
  'lease-unavailable': 'another worker was fetching it, and could not be reached',
  'set-cookie': 'it has Set-Cookie (cache.setCookie)',
  status: 'its status is not stored',
  stopped: 'no client waited for it any more',
  stream: 'it is a live stream, without a lifetime that the origin states',
  'store-unavailable': 'the store could not take it',
  unread: 'it arrived in a background revalidation, and no client waited for it (fill)',
  'too-large': 'it is larger than the store takes (store.maxObjectSizeBytes)',
  'vary-star': 'it has Vary: *',
  'vary-value': 'a value that it is selected by (Vary, key.fields, key.cookies) is longer than 1 KB',
};

/** Returns the sentence for the reason why a response was not stored; an unknown reason is returned as it is. */
export function describeRefusal(reason: string): string {
  return refusals[reason] ?? reason;
}

const ignored: Readonly<Record<string, string>> = {
  condition: 'a precondition decides first',
  'costs-more-than-whole': 'its parts would cost more than the whole',
  'if-range': 'If-Range does not hold',
  malformed: 'it is malformed',
  method: 'it applies to GET only',
  repeated: 'it occurs more than once',
  status: 'it applies to a 200 only',
  'too-long': 'it is too long',
  'too-many': 'it has too many ranges',
  'unknown-unit': 'its unit is not bytes, so it is left to the application',
};

/** Says whether a Range field is obeyed, or why it is ignored. */
function describeRange({ isObeyed, reason = '' }: RangeReading): string {
  if (isObeyed === undefined) return 'obeyed where the response allows it';
  return isObeyed ? 'obeyed' : `ignored: ${ignored[reason] ?? reason}`;
}

const staleBans: Readonly<Record<string, string>> = {
  request: 'the request (no-cache)',
  invalid: 'a later response, which showed a change at the origin',
};

/** Names what forbids serving a response stale. */
function describeStaleBan(ban: string): string {
  return staleBans[ban] ?? ban;
}
