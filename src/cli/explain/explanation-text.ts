/** An explanation as text for people: a label and what belongs to it, line by line. */

import type { ChosenExplanation, EntryExplanation, FlightExplanation } from '../../cache/explanation.ts';
import type { Explanation } from '../../delivery/explanation.ts';
import type { RangePlan, SpanPlan } from '../../delivery/range-plan.ts';
import { wireFieldName } from '../../http/field-name.ts';
import type { Fields } from '../../http/fields.ts';
import { duration, formatSections, printable, type Section } from '../text-sections.ts';
import { describeDecision, describeRange, describeRefusal, describeStaleBan } from './phrases.ts';

/** So many runs of bytes are printed. */
const MAX_RUNS = 8;

/** The text, with a line feed at its end. */
export function formatExplanation(explanation: Explanation): string {
  const { method, uri, chosen, plan, flights } = explanation;
  const sections: Section[] = [
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
  ];
  return printable(`${method} ${uri}\n\n${formatSections(sections)}`);
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
    return [isArriving ? 'known when more of it has come' : 'known when the origin has answered'];
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
  const told = asked.slice(0, MAX_RUNS).map((range) => (range === 'whole' ? 'the whole' : range));
  return [`the origin would be asked for ${told.join(', ')}${asked.length > told.length ? ' and more' : ''}`];
}

function storedLines({ entries, entryCount }: Explanation): string[] {
  if (entryCount === 0) return ['nothing under this key'];
  const more = entryCount > entries.length ? [`and ${entryCount - entries.length} more`] : [];
  return [...entries.map(entryLine), ...more];
}

function entryLine(entry: EntryExplanation): string {
  const { generation, status, sizeBytes, isComplete, isFragment, differs, isUsable, isChosen, pinnedUntil } = entry;
  const extent = isFragment ? 'a part by itself' : isComplete ? 'complete' : 'in part';
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
        ...(isInvalid ? ['the origin has let it be known that it has changed'] : []),
        ...(expiredAt === undefined ? [] : ['its lifetime was ended by a soft purge']),
      ],
    },
  ];
}

/** For whom a response is: a lifetime that the origin states is for all. */
function sharedLine({ boundTo }: ChosenExplanation): string {
  if (boundTo === undefined) return 'with all clients';
  const names = boundTo.map(wireName).join(', ');
  return names === ''
    ? 'with anonymous clients: no lifetime is stated that permits more'
    : `with requests that have the same ${names}: no lifetime is stated that permits more`;
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
  'range-reuse': 'nobody gives one, and ranges reuse it (cache.rangeReuseSeconds)',
  none: 'nobody gives one',
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

function originLines({ origin, originQuestion }: Explanation): string[] {
  const { isKnown, mayAsk } = origin;
  const ability = isKnown
    ? 'it gives ranges'
    : mayAsk
      ? 'not known whether it gives ranges'
      : 'it is not asked for ranges';
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

function fieldsText(fields: Fields): string {
  return fields.map(([name, value]) => `${wireName(name)}: ${value}`).join(', ');
}

/** Cookies of the key are named as such. */
function wireName(name: string): string {
  return name.startsWith('cookie:') ? `cookie ${name.slice('cookie:'.length)}` : wireFieldName(name);
}

/** Positions as Range has them, the last one included. */
function wireSpan({ start, end }: { readonly start: number; readonly end: number }): string {
  return `${start}-${end - 1}`;
}

function runsText<T extends { readonly start: number; readonly end: number }>(
  runs: readonly T[],
  prefix: (run: T) => string = () => '',
): string {
  const told = runs.slice(0, MAX_RUNS).map((run) => `${prefix(run)}${wireSpan(run)}`);
  return told.join(', ') + (runs.length > told.length ? ', …' : '');
}
