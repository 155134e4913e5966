/** Ranges: a response that is stored in whole answers them, and one that is stored in part is completed. */

import { table } from './engine.ts';
import { cached, type Details, date, type Exchange, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const strong = 'ETag: "a"';
const digits = '0123456789';
/** A text of several blocks. The characters around a position tell where it is. */
const long = Array.from({ length: 2000 }, (_, index) => String(index).padStart(5, '.')).join('');

const whole = (...fields: string[]): Exchange => fetched({ reply: { fields: [hour, ...fields], body: digits } });
const range = (value: string, ...fields: string[]): Details => ({ fields: [`Range: bytes=${value}`, ...fields] });
const part = (value: string, text: string, contentRange: string): Exchange =>
  cached({
    ...range(value),
    status: 206,
    text,
    has: [`Content-Range: bytes ${contentRange}`, `Content-Length: ${text.length}`],
  });

table('ranges of a response that is stored in whole', [
  optimal('RFC 9110 §14.2', 'the first two bytes', whole(), part('0-1', '01', '0-1/10')),
  optimal('RFC 9110 §14.1.2', 'one byte', whole(), part('9-9', '9', '9-9/10')),
  optimal('RFC 9110 §14.1.2', 'to the end', whole(), part('1-', '123456789', '1-9/10')),
  optimal('RFC 9110 §14.1.2', 'a suffix', whole(), part('-1', '9', '9-9/10')),
  optimal('RFC 9110 §14.1.2', 'a suffix longer than the body', whole(), part('-99', digits, '0-9/10')),
  optimal('RFC 9110 §14.1.2', 'a range that ends behind the body', whole(), part('5-99', '56789', '5-9/10')),
  optimal(
    'RFC 9110 §14.1',
    'a unit in another case',
    whole(),
    cached({ fields: ['Range: BYTES=0-1'], status: 206, text: '01' }),
  ),
  required(
    'RFC 9110 §15.5.17',
    'a range that begins behind the body',
    whole(),
    cached({ ...range('10-'), status: 416, has: ['Content-Range: bytes */10'] }),
  ),
  required('RFC 9110 §14.2', 'an invalid range is ignored', whole(), cached(range('5-2'))),
  required('RFC 9110 §14.2', 'another unit is for the origin', whole(), fetched({ fields: ['Range: lines=0-1'] })),
  required(
    'RFC 9110 §14.2',
    'a method that has no ranges',
    whole(),
    cached({ method: 'HEAD', ...range('0-1'), lacks: ['Content-Range'], has: ['Content-Length: 10'] }),
  ),
  required(
    'RFC 9110 §13.1.5',
    'If-Range that holds',
    whole(strong),
    cached({ ...range('0-1', 'If-Range: "a"'), status: 206, text: '01' }),
  ),
  required('RFC 9110 §13.1.5', 'If-Range that does not hold', whole(strong), cached(range('0-1', 'If-Range: "b"'))),
  required(
    'RFC 9110 §13.1.5',
    'If-Range with a weak tag',
    whole('ETag: W/"a"'),
    cached(range('0-1', 'If-Range: W/"a"')),
  ),
  required(
    'RFC 9110 §13.2.2',
    'If-None-Match comes first',
    whole(strong),
    cached({ ...range('0-1', 'If-None-Match: "a"'), status: 304 }),
  ),
  required(
    'RFC 9110 §15.3.7',
    'the 206 has the fields of the 200',
    whole(strong, 'Vary: A', 'Content-Location: /x'),
    cached({
      ...range('0-1'),
      status: 206,
      text: '01',
      has: [strong, hour, 'Vary: A', 'Content-Location: /x', 'Date'],
    }),
  ),
  required(
    'RFC 9110 §14.2',
    'a 404 has no ranges',
    fetched({ reply: { status: 404, fields: [hour] } }),
    cached(range('0-1')),
  ),
  optimal(
    'RFC 9110 §15.3.7.2',
    'several ranges',
    whole(),
    cached({
      ...range('0-0, 9-9'),
      status: 206,
      has: ['Content-Type: ~multipart/byteranges'],
      lacks: ['Content-Range'],
    }),
  ),
  required(
    'RFC 9111 §4.2',
    'a stale response is not used',
    gives('Cache-Control: max-age=10'),
    fetched({ wait: 10, ...range('0-2'), status: 206, text: 'the' }),
  ),
  optimal(
    'RFC 9111 §4.3.4',
    'a stale response is used after a validation',
    gives('Cache-Control: max-age=10', strong),
    validated({ wait: 10, ...range('0-2'), status: 206, text: 'the' }),
  ),
  required(
    'RFC 9111 §3.4',
    'the 206 has the other fields of the stored response',
    whole('A: 1'),
    cached({ ...range('0-1'), status: 206, text: '01', has: ['A: 1'] }),
  ),
  optimal(
    'RFC 9111 §3.4',
    'an empty body',
    fetched({ reply: { fields: [hour], body: '' } }),
    cached({ ...range('0-1'), status: 200 }),
  ),
]);

/** An exchange in which the origin answers the range with a part of the long text. */
const asksPart = (value: string, ...fields: string[]): Exchange =>
  fetched({
    ...range(value),
    atMost: 2,
    reply: { fields: [hour, ...fields], body: long, hasRanges: true },
    status: 206,
    text: sliceOf(value),
  });
const partOf = (value: string): Exchange => cached({ ...range(value), status: 206, text: sliceOf(value) });

function sliceOf(value: string): string {
  const [first = '', last = ''] = value.split('-');
  if (first === '') return long.slice(-Number(last));
  return long.slice(Number(first), last === '' ? undefined : Number(last) + 1);
}

/** The origin's new version in whole: as long as the old one, and told from it by `-` in place of `.`. */
const newWhole = (...fields: string[]): Exchange =>
  fetched({
    atMost: 2,
    reply: { fields, body: long.replaceAll('.', '-') },
    status: 200,
    text: long.replaceAll('.', '-'),
  });

const lastModified = `Last-Modified: ${date(-99)}`;

table('a response that is stored in part', [
  optimal('RFC 9111 §3.3', 'answers the same range', asksPart('2048-4095', strong), partOf('2048-4095')),
  optimal('RFC 9111 §3.3', 'answers a smaller range', asksPart('2048-4095', strong), partOf('3000-3099')),
  optimal('RFC 9111 §3.3', 'answers its first byte', asksPart('2048-4095', strong), partOf('2048-2048')),
  optimal('RFC 9111 §3.3', 'answers its last byte', asksPart('2048-4095', strong), partOf('4095-4095')),
  optimal(
    'RFC 9111 §3.3',
    'answers a range to the end, where the end is stored',
    asksPart('-2000', strong),
    partOf('9000-'),
  ),
  optimal('RFC 9111 §3.3', 'answers a suffix that is stored', asksPart('-2000', strong), partOf('-500')),
  optimal(
    'RFC 9111 §3.3',
    'answers HEAD',
    asksPart('2048-4095', strong),
    cached({ method: 'HEAD', status: 200, has: ['Content-Length: 10000', strong] }),
  ),
  required(
    'RFC 9111 §3.3',
    'does not answer a range beyond it',
    asksPart('2048-4095', strong),
    asksPart('3000-9999', strong),
  ),
  required(
    'RFC 9111 §3.3',
    'does not answer a request without Range',
    asksPart('2048-4095', strong),
    fetched({ atMost: 2, reply: { fields: [hour, strong], body: long, hasRanges: true }, status: 200, text: long }),
  ),
  optimal(
    'RFC 9111 §3.4',
    'is combined with another part',
    asksPart('0-4095', strong),
    asksPart('4096-9999', strong),
    cached({ status: 200, text: long }),
  ),
  optimal(
    'RFC 9111 §3.4',
    'is combined with another part for a range of both',
    asksPart('0-4095', strong),
    asksPart('4096-8191', strong),
    partOf('4000-5000'),
  ),
  optimal(
    'RFC 9111 §3.4',
    'is completed with a range request',
    asksPart('0-4095', strong),
    fetched({
      reply: { fields: [hour, strong], body: long, hasRanges: true },
      status: 200,
      text: long,
      asks: ['Range: ~bytes=4096-'],
    }),
    cached({ status: 200, text: long }),
  ),
  optimal(
    'RFC 9111 §3.4',
    'takes the newer fields',
    asksPart('0-4095', strong, 'A: 1'),
    asksPart('4096-9999', strong, 'A: 2'),
    cached({ ...range('0-9'), status: 206, text: long.slice(0, 10), has: ['A: 2'] }),
  ),
  required(
    'RFC 9111 §3.4',
    'is not combined with a part of another tag',
    asksPart('0-4095', strong),
    fetched({
      atMost: 2,
      ...range('4096-9999'),
      reply: { fields: [hour, 'ETag: "b"'], body: long.toUpperCase().replaceAll('.', '-'), hasRanges: true },
      status: 206,
      text: long.slice(4096).replaceAll('.', '-'),
    }),
    // The whole was fetched in place of the part.
    cached({ status: 200, text: long.replaceAll('.', '-') }),
  ),
  ...[strong, lastModified].flatMap((validator) => [
    required(
      'RFC 9110 §15.3.7.3',
      `${validator}: is not combined with a response without validator`,
      asksPart('-2000', validator),
      newWhole(),
    ),
    required(
      'RFC 9110 §15.3.7.3',
      `${validator}: is not combined with a response with another date`,
      asksPart('-2000', validator),
      newWhole(`Last-Modified: ${date(-50)}`),
    ),
    required(
      'RFC 9110 §15.3.7.3',
      `${validator}: is not combined with a response with another tag`,
      asksPart('-2000', validator),
      newWhole('ETag: "b"'),
    ),
  ]),
  ...['ETag: W/"a"', 'A: no validator'].map((field) =>
    required(
      'RFC 9110 §15.3.7.3',
      `${field}: is not combined, and the whole is stored instead`,
      asksPart('9000-9999', field),
      cached({ status: 200, text: long }),
    ),
  ),
  optimal(
    'RFC 9111 §3.3',
    'answers the same range under a weak tag',
    asksPart('-2000', 'ETag: W/"a"'),
    partOf('-2000'),
  ),
  optimal('RFC 9111 §3.3', 'answers a range within it without a tag', asksPart('-2000'), partOf('9000-9099')),
  required('RFC 9111 §4.2', 'is not fresh for longer than the whole', asksPart('2048-4095', strong), {
    ...asksPart('2048-4095', strong),
    wait: 3600,
  }),
  required(
    'RFC 9111 §5.2.2.5',
    'is not stored under no-store',
    fetched({
      atMost: 2,
      ...range('2048-4095'),
      reply: { fields: ['Cache-Control: no-store', strong], body: long, hasRanges: true },
      status: 206,
      text: sliceOf('2048-4095'),
    }),
    asksPart('2048-4095', strong),
  ),
  required(
    'RFC 9111 §4.4',
    'is invalid after POST',
    asksPart('2048-4095', strong),
    fetched({ method: 'POST', body: 'x' }),
    asksPart('2048-4095', strong),
  ),
  required(
    'RFC 9110 §15.3.7',
    'an origin without ranges is asked for the whole once',
    fetched({
      ...range('2048-4095'),
      reply: { fields: [hour, strong], body: long },
      status: 206,
      text: sliceOf('2048-4095'),
    }),
    partOf('5000-5999'),
    cached({ status: 200, text: long }),
  ),
]);
