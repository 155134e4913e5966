/** What an origin makes of Range: whole bytes, first and last ones, and those of another version. */

import { fieldValue } from '../../http/fields.ts';
import { parseContentRange } from '../../semantics/content-range.ts';
import type { Finding } from './finding.ts';
import type { Answer, Observations, Reply } from './questions.ts';

/** Everything about ranges. */
export function findRanges(observations: Observations): Finding[] {
  const { firstByte, lastByte, otherVersion } = observations;
  if (firstByte === undefined) return [];
  return [
    rangesFinding(firstByte, observations.whole),
    ...(lastByte === undefined ? [] : [suffixFinding(lastByte)]),
    ...(otherVersion === undefined ? [] : [ifRangeFinding(otherVersion)]),
  ];
}

function rangesFinding(reply: Reply, whole: Answer): Finding {
  const topic = 'ranges';
  if (reply.kind === 'answer' && reply.status === 206) return partFinding(reply);
  const isAnnounced = /^\s*bytes\s*$/i.test(fieldValue(whole.fields, 'accept-ranges') ?? '');
  const although = isAnnounced ? ', although it says Accept-Ranges: bytes' : '';
  if (reply.kind === 'answer' && reply.status === 200) {
    return {
      topic,
      found: 'none',
      isLack: true,
      fact: `none: asked for one byte it sends the whole (200)${although}`,
      remedy:
        'fetches the whole once and answers every range from it, as soon as its bytes are there; a transfer that breaks off is taken up again from the start, and compared with what had come',
      options: ['origin.ranges', 'fill'],
    };
  }
  if (reply.kind === 'answer' && reply.status === 416 && isEmpty(reply)) {
    return { topic, found: 'empty', isLack: false, fact: 'not known: there is nothing in it; probe a larger one' };
  }
  return {
    topic,
    found: 'failing',
    isLack: true,
    fact: `asked for one byte, ${describeReply(reply)}${although}`,
    remedy: 'asks for no parts with "never", fetches the whole once and answers every range from it',
    options: ['origin.ranges'],
  };
}

function partFinding(answer: Answer): Finding {
  const range = parseContentRange(fieldValue(answer.fields, 'content-range') ?? '');
  if (range?.span.start === 0 && range.span.end === 1) {
    return {
      topic: 'ranges',
      found: 'yes',
      isLack: false,
      fact: 'yes: it sends the byte that it is asked for (206)',
      options: ['origin.ranges', 'fill.complete'],
    };
  }
  return {
    topic: 'ranges',
    found: 'wrong',
    isLack: true,
    fact: `wrong: asked for the first byte, it sends a 206 with ${contentRangeText(answer)}`,
    remedy: 'checks every part, and asks for wholes for a while when one is wrong; "never" spares the attempt',
    options: ['origin.ranges'],
  };
}

function suffixFinding(reply: Reply): Finding {
  const topic = 'suffix';
  const range =
    reply.kind === 'answer' ? parseContentRange(fieldValue(reply.fields, 'content-range') ?? '') : undefined;
  const isLast = range !== undefined && range.span.end - range.span.start === 1 && range.span.end === range.sizeBytes;
  if (isLast && reply.kind === 'answer' && reply.status === 206) {
    return { topic, found: 'yes', isLack: false, fact: 'yes: it sends the last byte to who asks for it (bytes=-1)' };
  }
  const told =
    reply.kind === 'answer' && reply.status === 206 ? `it sends ${contentRangeText(reply)}` : describeReply(reply);
  return {
    topic,
    found: 'no',
    isLack: true,
    fact: `asked for the last byte (bytes=-1), ${told}`,
    remedy: 'checks what comes, and answers such ranges from what is stored once the length is known',
    options: ['origin.ranges'],
  };
}

function ifRangeFinding(reply: Reply): Finding {
  const topic = 'if-range';
  if (reply.kind === 'answer' && reply.status === 206) {
    return {
      topic,
      found: 'ignored',
      isLack: true,
      fact: 'asked for a byte of another version (If-Range), it sends one of this version (206)',
      remedy: 'compares the validator of every part with that of what is stored, and never puts two versions together',
    };
  }
  if (reply.kind === 'answer' && reply.status === 200) {
    return { topic, found: 'yes', isLack: false, fact: 'yes: asked for a byte of another version, it sends the whole' };
  }
  return {
    topic,
    found: 'failing',
    isLack: true,
    fact: `asked for a byte of another version (If-Range), ${describeReply(reply)}`,
    remedy: 'fetches the whole where a part cannot be had',
    options: ['origin.ranges'],
  };
}

/** What came, as the end of a sentence about the origin. */
export function describeReply(reply: Reply): string {
  return reply.kind === 'answer' ? `it answers ${reply.status}` : `it fails: ${reply.detail}`;
}

function contentRangeText({ fields }: Answer): string {
  const value = fieldValue(fields, 'content-range');
  return value === undefined ? 'no Content-Range' : `Content-Range: ${value}`;
}

function isEmpty({ fields }: Answer): boolean {
  return /^bytes \*\/0$/.test(fieldValue(fields, 'content-range') ?? '');
}
