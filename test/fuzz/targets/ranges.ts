/** Range, Content-Range, multipart/byteranges, validators, preconditions and dates. */

import { formatHttpDate, parseHttpDate } from '../../../src/semantics/http-date.ts';
import { evaluatePreconditions } from '../../../src/semantics/precondition.ts';
import {
  formatContentRange,
  formatRange,
  frameByteranges,
  parseContentRange,
  parseRange,
  parseUnsatisfiedRange,
  passedRange,
  type RangeSpec,
  selectRanges,
} from '../../../src/semantics/range.ts';
import { parseEntityTag, parseEntityTagList } from '../../../src/semantics/validator.ts';
import { fieldsOf, must, mustEqual, type Target, valuesOf } from '../target.ts';

const maxRanges = 20;
const now = Date.UTC(2026, 0, 1);

const range: Target = {
  name: 'range',
  seeds: ['bytes=0-9', 'bytes=-5', 'bytes=5-', 'bytes=0-1,5-6, -3 ,,9-', 'BYTES=1-1', 'items=0-1', 'bytes=9-1'],
  words: ['bytes=', '0-', '-1', '-0', '9007199254740991', '99999999999999999999', ',', ' ', '0-0', '5-9'],
  check(input) {
    const parsed = parseRange(input, { maxRanges });
    mustEqual(
      parseRange(input.replace(/^bytes/i, 'bYtEs'), { maxRanges }),
      parsed,
      'the case of the unit has no effect',
    );
    if (parsed.kind === 'ignored') return;
    must(parsed.specs.length >= 1 && parsed.specs.length <= maxRanges, 'the number of ranges is limited');
    mustEqual(parseRange(formatRange(parsed.specs), { maxRanges }), parsed, 'a formatted Range is parsed as the same');
    for (const sizeBytes of [0, 1, 7, 100]) checkSelection(parsed.specs, sizeBytes);
    checkLarge(parsed.specs);
  },
};

/** Checks the selection against an array with a boolean for each byte. */
function checkSelection(specs: readonly RangeSpec[], sizeBytes: number): void {
  const wanted = Array.from({ length: sizeBytes }, (_, at) => specs.some((spec) => isIn(spec, at, sizeBytes)));
  const selection = selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 });
  if (selection.kind === 'whole') {
    mustEqual(sizeBytes, 0, 'only an empty body is answered in whole');
    return;
  }
  must(
    (selection.kind === 'partial') === wanted.includes(true),
    'a range set is satisfiable exactly where it contains a byte',
  );
  if (selection.kind === 'unsatisfiable') return;
  const got = Array.from({ length: sizeBytes }, () => 0);
  for (const { start, end } of selection.spans) {
    must(start >= 0 && start < end && end <= sizeBytes, 'spans are inside the body');
    for (let at = start; at < end; at += 1) got[at] = (got[at] ?? 0) + 1;
  }
  mustEqual(
    got.map((count) => count === 1),
    wanted,
    'each byte of a range is in exactly one span',
  );
}

function isIn(spec: RangeSpec, at: number, sizeBytes: number): boolean {
  if (spec.kind === 'suffix') return at >= sizeBytes - spec.length;
  return at >= spec.first && (spec.kind === 'open' || at <= spec.last);
}

function checkLarge(specs: readonly RangeSpec[]): void {
  for (const coalesceGapBytes of [0, 80]) {
    const selection = selectRanges(specs, Number.MAX_SAFE_INTEGER, { coalesceGapBytes });
    if (selection.kind !== 'partial') continue;
    const bytes = selection.spans.reduce((sum, { start, end }) => sum + BigInt(end) - BigInt(start), 0n);
    must(bytes <= BigInt(Number.MAX_SAFE_INTEGER), 'no more bytes are selected than the body has');
    must(selection.spans.length <= specs.length, 'there are no more spans than ranges');
  }
}

const rangePassed: Target = {
  name: 'range-passed',
  seeds: ['bytes=0-9,5-20', 'bytes=5-9,0-1', 'bytes=-5', 'bytes=0-,5-6', 'lines=1-2'],
  words: range.words,
  check(input) {
    const passed = passedRange(valuesOf(input).slice(0, 1), { maxRanges });
    if (passed === undefined) return;
    mustEqual(passedRange([passed], { maxRanges }), passed, 'a passed Range is passed unchanged the second time');
    const parsed = parseRange(passed, { maxRanges: 100 });
    if (parsed.kind === 'ignored') return;
    const counts = Array.from({ length: 100 }, (_, at) => parsed.specs.filter((spec) => isIn(spec, at, 100)).length);
    must(counts.every((count) => count <= 1) || parsed.specs.length === 1, 'no byte is requested twice');
  },
};

const contentRange: Target = {
  name: 'content-range',
  seeds: ['bytes 0-9/10', 'bytes 0-0/*', 'bytes */5', 'bytes 5-4/10'],
  words: ['bytes ', '/', '*', '-', '9007199254740991', '9007199254740992', '0'],
  check(input) {
    const parsed = parseContentRange(input);
    const unsatisfied = parseUnsatisfiedRange(input);
    must(parsed === undefined || unsatisfied === undefined, 'only one of the two forms matches');
    if (unsatisfied !== undefined)
      must(Number.isSafeInteger(unsatisfied) && unsatisfied >= 0, 'a length is a safe integer that is not negative');
    if (parsed === undefined) return;
    const { span, sizeBytes } = parsed;
    must(span.start < span.end && span.end <= (sizeBytes ?? span.end), 'the span is inside the body');
    must(Number.isSafeInteger(span.end) && Number.isSafeInteger(sizeBytes ?? 0), 'no number was rounded');
    mustEqual(
      parseContentRange(formatContentRange(span, sizeBytes)),
      parsed,
      'a formatted field is parsed as the same',
    );
  },
};

const multipart: Target = {
  name: 'multipart-framing',
  seeds: ['bytes=0-1,5-6\nvideo/mp4', 'bytes=0-1,5-6', 'bytes=0-,3-4\ntext/plain; charset=x'],
  words: [...range.words, '\n', 'text/plain', '\r\n--b', '\u00ff'],
  check(input) {
    const [text = '', contentType] = valuesOf(input);
    const parsed = parseRange(text, { maxRanges });
    const selection = parsed.kind === 'set' && selectRanges(parsed.specs, 1000, { coalesceGapBytes: 0 });
    if (selection === false || selection.kind !== 'partial') return;
    const { heads, tail, sizeBytes } = frameByteranges(
      selection.spans,
      { sizeBytes: 1000, contentType },
      'b'.repeat(32),
    );
    const body = heads.map((head, at) => Buffer.from(head).toString('latin1') + partOf(selection.spans[at]));
    const whole = `${body.join('')}${Buffer.from(tail).toString('latin1')}`;
    mustEqual(whole.length, sizeBytes, 'the stated length is that of the whole body');
    const parts = `\r\n${whole}`.split(`\r\n--${'b'.repeat(32)}`);
    mustEqual(parts.length, selection.spans.length + 2, 'there is a part for each span');
    for (const part of parts.slice(1, -1)) {
      const [head = '', ...more] = part.split('\r\n\r\n');
      mustEqual(more.length, 1, 'a part has one head and one body');
      mustEqual(head.split('\r\n').length, contentType === undefined ? 2 : 3, 'a part has no other field');
    }
  },
};

function partOf(span: { readonly start: number; readonly end: number } | undefined): string {
  return span === undefined ? '' : 'x'.repeat(span.end - span.start);
}

const entityTags: Target = {
  name: 'entity-tags',
  seeds: ['"a"', 'W/"a"', '"a", W/"b" ,, "c"', '*', '"a,b"', '"'],
  words: ['W/', '"', '"a"', ', ', '*', 'w/', '\u00ff'],
  check(input) {
    const tag = parseEntityTag(input);
    if (tag !== undefined)
      mustEqual(input, `${tag.kind === 'weak' ? 'W/' : ''}"${tag.opaque}"`, 'a tag is the whole value');
    const list = parseEntityTagList(input);
    if (list === undefined || list === '*') return;
    const text = list.map(({ kind, opaque }) => `${kind === 'weak' ? 'W/' : ''}"${opaque}"`).join(', ');
    mustEqual(parseEntityTagList(text), list, 'a formatted list is parsed as the same');
    must(
      list.every(({ opaque }) => !/[" \t]/.test(opaque)),
      'a tag has no quote and no white space',
    );
  },
};

const stored = {
  status: 200,
  responseAt: now,
  fields: [
    ['etag', '"v1"'],
    ['last-modified', 'Wed, 01 Jan 2025 00:00:00 GMT'],
    ['date', 'Thu, 01 Jan 2026 00:00:00 GMT'],
  ],
} as const;

const preconditions: Target = {
  name: 'preconditions',
  seeds: [
    'if-none-match: "v1"',
    'if-match: "v1", "v2"\nrange: bytes=0-1',
    'if-modified-since: Wed, 01 Jan 2025 00:00:00 GMT',
    'if-unmodified-since: Wed, 01 Jan 2025 00:00:00 GMT\nif-range: "v1"\nrange: bytes=0-1',
  ],
  words: ['if-match', 'if-none-match', 'if-range', 'range: bytes=0-1', ': ', '\n', '"v1"', 'W/"v1"', '*', 'GMT'],
  check(input) {
    const fields = fieldsOf(input);
    const get = evaluatePreconditions({ method: 'GET', fields }, stored, now);
    const put = evaluatePreconditions({ method: 'PUT', fields }, stored, now);
    must(put.kind !== 'not-modified', 'an unsafe method gets no 304 (RFC 9110 §13.2.2)');
    const failed = evaluatePreconditions({ method: 'PUT', fields: [...fields, ['if-match', '"other"']] }, stored, now);
    const isAlone = !fields.some(([name]) => name === 'if-match');
    if (isAlone) mustEqual(failed.kind, 'precondition-failed', 'If-Match fails whatever the other fields are');
    const isFailed = get.kind === 'precondition-failed';
    mustEqual(isFailed && put.kind !== 'precondition-failed', false, 'a precondition that fails for GET fails for PUT');
    const ranged = evaluatePreconditions({ method: 'GET', fields: [...fields, ['if-range', 'W/"v1"']] }, stored, now);
    must(
      ranged.kind !== 'proceed' || ranged.range === 'ignore',
      'If-Range with a weak tag allows no range (RFC 9110 §13.1.5)',
    );
  },
};

const dates: Target = {
  name: 'dates',
  seeds: ['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'],
  words: ['Mon', 'Feb', '29', '2000', '1900', '23:59:60', 'GMT', ', ', ' 1', '0000', '9999', '-99 '],
  check(input) {
    const instant = parseHttpDate(input, now);
    if (instant === undefined) return;
    must(Number.isInteger(instant) && instant % 1000 === 0, 'a date has whole seconds');
    const text = formatHttpDate(instant);
    // A leap second at the end of 9999 is in the year 10000, which an HTTP date cannot express.
    if (instant < Date.UTC(10_000, 0))
      mustEqual(parseHttpDate(text, now), instant, 'a formatted date is parsed as the same');
  },
};

export const rangeTargets: readonly Target[] = [
  range,
  rangePassed,
  contentRange,
  multipart,
  entityTags,
  preconditions,
  dates,
];
