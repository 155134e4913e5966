/**
 * Turns the answers of an origin into findings about ranges, validators, freshness, Vary, cookies, TLS and HTTP/2. A finding
 * says what is missing, and what Rangeway does about it.
 */

import { fieldLines, fieldValue, hasField, wireFieldName } from '../../http/fields.ts';
import { rangeRefusals } from '../../origin/range-ability.ts';
import { readCacheControl } from '../../semantics/cache-control.ts';
import { isConnectionBinding } from '../../semantics/connection-auth.ts';
import { isDigestOfContent, selectReprDigest } from '../../semantics/digest.ts';
import { ageSeconds, type Freshness, freshnessLifetime, isExplicit, lifetimeField } from '../../semantics/freshness.ts';
import { type IdentityRules, identityParts, permitsSharing } from '../../semantics/identity.ts';
import { holdsWhole, isCodedAlone, parseContentRange, statesPart } from '../../semantics/range.ts';
import { decideStoring, isLiveStream, type StoringPolicy } from '../../semantics/storing.ts';
import { effectiveEntityTag, parseEntityTag, strongValidator } from '../../semantics/validator.ts';
import { varyNames } from '../../semantics/vary.ts';
import { describeRefusal } from '../admin/explain-text.ts';
import { duration, sizeText } from '../text-sections.ts';
import type { Observations, ProbeAnswer, Reply } from './questions.ts';

/** How the origin was reached. */
interface Connection {
  readonly isEncrypted: boolean;
  /** Whether its certificate was verified. */
  readonly isVerified: boolean;
}

/** The options of a route's cache that findings depend on. */
type CachingPolicy = StoringPolicy & { readonly identityFields: IdentityRules };

/** Returns all findings. A status other than 200 yields only a few. */
export function findAll(observations: Observations, policy: CachingPolicy, connection: Connection): readonly Finding[] {
  const reached = [tlsFinding(connection), ...http2Findings(observations)];
  const odd = [...loginFindings(observations), ...mendedFindings(observations)];
  if (observations.whole.status !== 200) {
    return [answerFinding(observations), ...partsOnlyFindings(observations), ...odd, ...reached];
  }
  // No range is cut out of a live stream, and it has no versions.
  const isLive = isLiveStream(observations.whole.fields);
  return [
    answerFinding(observations),
    ...odd,
    lengthFinding(observations),
    ...headFindings(observations),
    ...(isLive ? [] : findRanges(observations)),
    ...(isLive ? [] : findValidators(observations)),
    ...findCaching(observations, policy),
    ...findVariants(observations),
    ...findSharing(observations, policy),
    ...findCookies(observations, policy),
    ...digestFindings(observations),
    ...reached,
  ];
}

function answerFinding({ whole, head }: Observations): Finding {
  const topic = 'answer';
  const { status, fields } = whole;
  const type = fieldValue(fields, 'content-type');
  const fact = [String(status), ...(type === undefined ? [] : [type])].join(', ');
  const location = fieldValue(fields, 'location');
  if (status >= 300 && status < 400 && location !== undefined) {
    return { topic, found: 'redirect', isLack: true, fact: `${status}, to ${location}: probe that instead` };
  }
  const unasked = unaskedPartFinding(whole);
  if (unasked !== undefined) return unasked;
  if (status !== 200) {
    return { topic, found: 'error', isLack: true, fact: `${fact}: give the path of something that is there` };
  }
  if (head === undefined || (head.kind === 'answer' && head.status === status)) {
    return { topic, found: 'ok', isLack: false, fact };
  }
  const other = head.kind === 'answer' ? `answers ${head.status}` : `fails: ${head.detail}`;
  return {
    topic,
    found: 'no-head',
    isLack: true,
    fact: `${fact}; to HEAD it ${other}`,
    remedy: 'answers HEAD from what a GET has stored',
  };
}

/** Says that the origin authenticates connections. */
function loginFindings({ whole }: Observations): Finding[] {
  if (!isConnectionBinding(whole.fields)) return [];
  return [
    {
      topic: 'login',
      found: 'connection',
      isLack: false,
      fact: 'the origin authenticates connections (NTLM, Negotiate)',
      remedy:
        'gives each client that logs in a connection to the origin of its own, stores and shares nothing that comes over it, and asks for HTTP/1.1 in place of HTTP/2',
    },
  ];
}

/** Says which faults of the head were mended. */
function mendedFindings({ whole }: Observations): Finding[] {
  if (whole.mended === undefined || whole.mended.length === 0) return [];
  return [
    {
      topic: 'header',
      found: 'mended',
      isLack: false,
      fact: `the response header has faults: ${whole.mended.join(', ')}`,
      remedy: 'takes it in the one meaning that it has; other proxies may refuse it',
    },
  ];
}

/** Says that a HEAD tells no length, which some clients need before they ask for ranges, or another one than GET. */
function headFindings({ whole, head }: Observations): Finding[] {
  if (head?.kind !== 'answer' || head.status !== 200 || isLiveStream(whole.fields)) return [];
  const stated = fieldValue(head.fields, 'content-length');
  if (stated !== undefined && (whole.sizeBytes === undefined || Number(stated) === whole.sizeBytes)) return [];
  if (stated !== undefined) {
    return [
      {
        topic: 'head',
        found: 'other-length',
        isLack: true,
        fact: `the answer to HEAD states ${stated} bytes, that to GET ${whole.sizeBytes}`,
        remedy: 'passes the answer to HEAD on, and asks for what is stored anew, because it seems to have changed',
      },
    ];
  }
  return [
    {
      topic: 'head',
      found: 'no-length',
      isLack: true,
      fact: 'the answer to HEAD has no length',
      remedy:
        'answers HEAD without a length until the body is stored; with "fetch" it fetches the body for it, for clients such as GDAL that ask for the length first, and each HEAD can cost a whole body',
      options: ['fill.headLength'],
    },
  ];
}

function lengthFinding({ whole }: Observations): Finding {
  const topic = 'length';
  if (isLiveStream(whole.fields)) {
    const invented =
      whole.sizeBytes === undefined ? '' : `, so the ${whole.sizeBytes} bytes that it states are invented`;
    return {
      topic,
      found: 'stream',
      isLack: false,
      fact: `none: by its kind it is a live stream${invented}`,
      remedy: 'passes it on to each client from its live point, whatever its Range, and ends it with its client',
    };
  }
  switch (whole.framing) {
    case 'length': {
      const bytes = whole.sizeBytes ?? 0;
      const round = bytes < 1000 ? '' : ` (${sizeText(bytes)})`;
      return { topic, found: 'known', isLack: false, fact: `${bytes} bytes${round}` };
    }
    case 'none':
      return { topic, found: 'known', isLack: false, fact: '0 bytes' };
    case 'chunked':
      return {
        topic,
        found: 'unknown',
        isLack: true,
        fact: 'not stated beforehand (chunked)',
        remedy:
          'answers a range with a last byte as soon as its bytes have arrived; other ranges wait for the length, which is known once the body is stored, and get the whole from its start where it does not come in time',
        options: ['fill.lengthWaitSeconds'],
      };
    case 'close':
      if (whole.brokenBy === 'origin_tls_truncated') {
        return {
          topic,
          found: 'truncated',
          isLack: true,
          fact: 'not stated at all: the connection ends it, and TLS is closed without close_notify, so a truncation cannot be seen',
          remedy:
            'cuts clients off where a body ends like this, and stores nothing; "relay" passes such responses on as complete',
          options: ['origin.closeDelimited'],
        };
      }
      return {
        topic,
        found: 'unsure',
        isLack: true,
        fact: 'not stated beforehand: the end of the connection ends it',
        remedy:
          'stores it where the connection was closed in order, not where it broke off; answers a range with a last byte as soon as its bytes have arrived; other ranges wait for the length, which is known once the body is stored, and get the whole from its start where it does not come in time',
        options: ['origin.closeDelimited', 'fill.lengthWaitSeconds'],
      };
  }
}

/** Says that a GET without Range got a part, by its status or its Content-Range; undefined where it did not. */
function unaskedPartFinding(whole: ProbeAnswer): Finding | undefined {
  const topic = 'answer';
  const { status, fields, sizeBytes } = whole;
  if (status === 206 && holdsWhole(fields, sizeBytes)) {
    const fact = `206, though asked without Range: all ${sizeBytes} bytes as if they were a part`;
    const remedy = 'takes it for the 200 that it is, and stores it';
    return { topic, found: 'whole-as-part', isLack: true, fact, remedy };
  }
  if (status !== 206 && !statesPart(fields, sizeBytes)) return undefined;
  const fact = `${status} with ${contentRangeText(whole)}, though asked without Range: only a part`;
  const remedy = 'passes it on, and neither stores nor shares it; ranges of clients are passed on as they are';
  return { topic, found: 'part', isLack: true, fact, remedy };
}

function digestFindings({ whole }: Observations): Finding[] {
  const topic = 'digest';
  if (selectReprDigest(whole) !== undefined) {
    return [{ topic, found: 'yes', isLack: false, fact: 'yes: the stored body is compared with it' }];
  }
  const ofService = whole.fields.map(([name]) => name).filter(isDigestOfContent);
  if (ofService.length > 0) {
    const fact = `${[...new Set(ofService)].join(', ')}: of the whole`;
    return [
      {
        topic,
        found: 'of-service',
        isLack: false,
        fact,
        remedy: 'leaves it out of parts, and sends it with the whole',
      },
    ];
  }
  return [
    {
      topic,
      found: 'none',
      // Few origins send one, and nothing is lost without it.
      isLack: false,
      fact: 'none (Repr-Digest, RFC 9530)',
      remedy: 'keeps its own checksum of every block; with "digest" clients also get the SHA-256 of the whole',
      options: ['cache.digest'],
    },
  ];
}

function tlsFinding({ isEncrypted, isVerified }: Connection): Finding {
  const topic = 'tls';
  if (!isEncrypted) return { topic, found: 'none', isLack: false, fact: 'none' };
  if (isVerified) return { topic, found: 'verified', isLack: false, fact: 'yes, its certificate is verified' };
  const fact = 'yes; its certificate was not verified (--insecure)';
  const remedy = 'refuses such a certificate unless a file with its authority is configured';
  return { topic, found: 'unverified', isLack: true, fact, remedy, options: ['origin.caFile'] };
}

function http2Findings({ http2 }: Observations): Finding[] {
  const topic = 'http2';
  if (http2 === undefined) return [];
  if (http2.kind === 'answer' && http2.version === '2') {
    const fact = 'yes: it takes many requests over one connection';
    return [{ topic, found: 'yes', isLack: false, fact, options: ['origin.protocol'] }];
  }
  return [{ topic, found: 'no', isLack: false, fact: 'no' }];
}

/** One thing that an origin has or lacks. Plain data: `rangeway probe --json` prints it as it is. */
export interface Finding {
  readonly topic:
    | 'answer'
    | 'length'
    | 'head'
    | 'header'
    | 'login'
    | 'ranges'
    | 'suffix'
    | 'if-range'
    | 'validator'
    | 'validation'
    | 'freshness'
    | 'storing'
    | 'vary'
    | 'sharing'
    | 'cookies'
    | 'digest'
    | 'tls'
    | 'http2';
  /** The result as a word for programs. */
  readonly found: string;
  /** Whether the origin lacks something that clients or caches need. */
  readonly isLack: boolean;
  /** The result for people. */
  readonly fact: string;
  /** What Rangeway does about it, for people: the rest of a sentence that begins with "Rangeway". */
  readonly remedy?: string;
  /** The options that matter, by their paths within a route. */
  readonly options?: readonly string[];
}

function findRanges(observations: Observations): Finding[] {
  const { firstByte, lastByte, otherVersion } = observations;
  if (firstByte === undefined) return [];
  return [
    rangesFinding(firstByte, observations),
    ...(lastByte === undefined ? [] : [suffixFinding(lastByte)]),
    ...(otherVersion === undefined ? [] : [ifRangeFinding(otherVersion)]),
  ];
}

function partsOnlyFindings({ whole, firstByte }: Observations): Finding[] {
  if (firstByte?.kind !== 'answer' || firstByte.status !== 206) return [];
  return [
    {
      topic: 'ranges',
      found: 'parts-only',
      isLack: true,
      fact: `it gives parts only: asked for one byte it sends a 206, asked for the whole it answers ${whole.status}`,
      remedy:
        'passes the ranges of clients on as they are, and stores none of them unless its parts have a strong validator',
    },
  ];
}

function rangesFinding(reply: Reply, { whole, encodedPart }: Observations): Finding {
  const topic = 'ranges';
  if (encodedPart?.kind === 'answer' && encodedPart.status === 206) {
    const { fields, sizeBytes } = encodedPart;
    if (isCodedAlone(fields, sizeBytes)) return compressedFinding(encodedPart);
  }
  if (reply.kind === 'answer' && reply.status === 206) return partFinding(reply);
  if (reply.kind === 'answer' && isPartAsWhole(reply, whole)) {
    return {
      topic,
      found: 'part-as-whole',
      isLack: true,
      fact: `wrong: asked for one byte, it sends that byte with status ${reply.status}, as if it were the whole`,
      remedy: 'does not use such a part, asks for the whole without Range, and cuts ranges out of it',
      options: ['origin.ranges'],
    };
  }
  const isAnnounced = /^\s*bytes\s*$/i.test(fieldValue(whole.fields, 'accept-ranges') ?? '');
  const although = isAnnounced ? ', although it says Accept-Ranges: bytes' : '';
  if (reply.kind === 'answer' && reply.status === 200) {
    return {
      topic,
      found: 'none',
      isLack: true,
      fact: `none: asked for one byte it sends the whole (200)${although}`,
      remedy:
        'fetches the whole once and answers every range from it as soon as its bytes have arrived; a transfer that breaks off starts again from the first byte, and is compared with the bytes that had arrived',
      options: ['origin.ranges', 'fill'],
    };
  }
  if (reply.kind === 'answer' && reply.status === 416 && isEmpty(reply)) {
    return { topic, found: 'empty', isLack: false, fact: 'not known: the body is empty; probe a larger one' };
  }
  if (reply.kind === 'answer' && rangeRefusals.has(reply.status)) {
    return {
      topic,
      found: 'refused',
      isLack: true,
      fact: `asked for one byte, it answers ${reply.status}, though it sends the whole${although}`,
      remedy: 'asks once without Range, and for the whole of that URL from then on; "never" avoids the attempt',
      options: ['origin.ranges'],
    };
  }
  const asksWhole =
    'asks for the whole without Range, and for the whole of that URL for ten minutes; "never" avoids the attempt';
  return {
    topic,
    found: 'failing',
    isLack: true,
    fact: `asked for one byte, ${describeReply(reply)}${although}`,
    remedy:
      reply.kind === 'answer' && reply.status === 416
        ? asksWhole
        : 'with "never" asks for no parts, fetches the whole once and answers every range from it',
    options: ['origin.ranges'],
  };
}

/** Whether a 200 or 203 to a request for one byte holds that byte alone. */
function isPartAsWhole({ status, fields, sizeBytes }: ProbeAnswer, whole: ProbeAnswer): boolean {
  if (status !== 200 && status !== 203) return false;
  return statesPart(fields, sizeBytes) || (sizeBytes === 1 && whole.sizeBytes !== 1);
}

function compressedFinding({ fields }: ProbeAnswer): Finding {
  const coding = fieldValue(fields, 'content-encoding');
  return {
    topic: 'ranges',
    found: 'compressed',
    isLack: true,
    fact: `wrong for clients that accept compressed content: its parts (${coding}) have not the length that their Content-Range states, or none`,
    remedy:
      'does not use such a part, fetches the whole, and cuts ranges out of it; "identity" asks for no compressed content',
    options: ['cache.acceptEncoding'],
  };
}

function partFinding(answer: ProbeAnswer): Finding {
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
    remedy: 'checks every part, and asks for whole bodies for a while when one is wrong; "never" avoids the attempt',
    options: ['origin.ranges'],
  };
}

function suffixFinding(reply: Reply): Finding {
  const topic = 'suffix';
  const range =
    reply.kind === 'answer' ? parseContentRange(fieldValue(reply.fields, 'content-range') ?? '') : undefined;
  const isLast = range !== undefined && range.span.end - range.span.start === 1 && range.span.end === range.sizeBytes;
  if (isLast && reply.kind === 'answer' && reply.status === 206) {
    return { topic, found: 'yes', isLack: false, fact: 'yes: it sends the last byte when asked for it (bytes=-1)' };
  }
  const what =
    reply.kind === 'answer' && reply.status === 206 ? `it sends ${contentRangeText(reply)}` : describeReply(reply);
  return {
    topic,
    found: 'no',
    isLack: true,
    fact: `asked for the last byte (bytes=-1), ${what}`,
    remedy: 'checks the answer, and answers such ranges from the store once the length is known',
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
      remedy: 'compares the validator of every part with the stored one, and never combines two versions',
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

/** Describes a reply, as the end of a sentence about the origin. */
function describeReply(reply: Reply): string {
  return reply.kind === 'answer' ? `it answers ${reply.status}` : `it fails: ${reply.detail}`;
}

function contentRangeText({ fields }: ProbeAnswer): string {
  const value = fieldValue(fields, 'content-range');
  return value === undefined ? 'no Content-Range' : `Content-Range: ${value}`;
}

function isEmpty({ fields }: ProbeAnswer): boolean {
  return /^bytes \*\/0$/.test(fieldValue(fields, 'content-range') ?? '');
}

/** Says which validators the origin sends, and whether it honours them. */
function findValidators({ whole, conditional, firstByte, lastByte }: Observations): Finding[] {
  const validator = changingFinding(whole, firstByte, lastByte) ?? validatorFinding(whole);
  if (conditional === undefined) return [validator];
  if (conditional.kind === 'answer' && conditional.status === 304) {
    const fact = 'yes: asked whether it has changed, it says no (304)';
    return [validator, { topic: 'validation', found: 'yes', isLack: false, fact }];
  }
  const isWhole = conditional.kind === 'answer' && conditional.status === 200;
  return [
    validator,
    {
      topic: 'validation',
      found: isWhole ? 'ignored' : 'failing',
      isLack: true,
      fact: `asked whether it has changed, ${isWhole ? 'it sends the whole again (200)' : describeReply(conditional)}`,
      remedy: 'fetches it again each time it is stale; longer lifetimes avoid that',
      options: ['cache.defaultTtlSeconds', 'cache.overrideTtlByStatus'],
    },
  ];
}

/** The validators of two parts differ, or that of a part from that of the whole; undefined where they are equal or weak. */
function changingFinding(whole: ProbeAnswer, ...parts: readonly (Reply | undefined)[]): Finding | undefined {
  const answers = [whole, ...parts.flatMap((part) => (part?.kind === 'answer' && part.status === 206 ? [part] : []))];
  const validators = new Set(answers.flatMap((answer) => strongValidator(answer, answer.responseAt) ?? []));
  if (validators.size < 2) return undefined;
  return {
    topic: 'validator',
    found: 'changing',
    isLack: true,
    fact: `changes from answer to answer: ${[...validators].join(', ')}; it belongs to the part, or servers answer in turn`,
    remedy:
      'fetches an open range by one request, and asks for the whole of a URL for ten minutes once its validator has changed between two parts',
    options: ['origin.ranges'],
  };
}

function validatorFinding(whole: ProbeAnswer): Finding {
  const topic = 'validator';
  const strong = strongValidator(whole, whole.responseAt);
  const entityTag = effectiveEntityTag(whole);
  const lastModified = fieldValue(whole.fields, 'last-modified');
  const parsed = entityTag === undefined ? undefined : parseEntityTag(entityTag);
  const sent = [
    ...(entityTag === undefined ? [] : [`ETag ${entityTag}`]),
    ...(lastModified === undefined ? [] : [`Last-Modified ${lastModified}`]),
  ].join(', ');
  if (strong !== undefined) return { topic, found: 'strong', isLack: false, fact: `strong: ${sent}` };
  if (parsed === undefined && lastModified === undefined) {
    return {
      topic,
      found: 'none',
      isLack: true,
      fact: entityTag === undefined ? 'none: neither ETag nor Last-Modified' : `none: ${sent} is no entity tag`,
      remedy:
        'gives the stored response a strong ETag of its own, which stays when the same bytes arrive again; parts cannot be combined, so the whole is fetched',
      options: ['cache.ownEntityTags'],
    };
  }
  return {
    topic,
    found: 'weak',
    isLack: true,
    fact: `weak: ${sent}; parts cannot be combined by it`,
    remedy: 'fetches the whole; with "whenWeak" clients get a strong ETag of its own, to resume and combine ranges',
    options: ['cache.ownEntityTags'],
  };
}

/** Says how long the response is fresh, or why it is not stored. */
function findCaching({ whole }: Observations, policy: StoringPolicy): Finding[] {
  const control = readCacheControl(whole.fields, policy);
  const freshness = freshnessLifetime(whole, policy, control);
  const decision = decideStoring({ request: { method: 'GET', fields: whole.asked }, response: whole, policy });
  if (decision.kind === 'store') return [freshnessFinding(whole, freshness, control.field)];
  return [
    {
      topic: 'storing',
      found: decision.reason,
      isLack: true,
      fact: `not stored: ${describeRefusal(decision.reason)}`,
      remedy: `passes it on each time${isLiveStream(whole.fields) ? '' : '; ranges are cut out of it on the way'}`,
      ...(decision.reason === 'no-freshness' ? { options: ['cache.defaultTtlSeconds'] } : {}),
    },
  ];
}

function freshnessFinding(whole: ProbeAnswer, { lifetimeMs, source }: Freshness, field: string): Finding {
  const topic = 'freshness';
  const leftMs = lifetimeMs - ageSeconds(whole, whole.responseAt) * 1000;
  const options = ['cache.overrideTtlByStatus', 'cache.staleWhileRevalidateSeconds'];
  if (isExplicit(source)) {
    const from = wireFieldName(lifetimeField(source, { field }) ?? field);
    const basis = source === 'expires' ? from : `${source} in ${from}`;
    if (leftMs > 0) return { topic, found: source, isLack: false, fact: `${duration(lifetimeMs)}: ${basis}` };
    return {
      topic,
      found: 'stale',
      isLack: true,
      fact: `stale on arrival: ${duration(lifetimeMs)} by ${basis}`,
      remedy: 'stores it, and asks the origin each time whether it has changed',
      options,
    };
  }
  if (source === 'heuristic') {
    return {
      topic,
      found: source,
      isLack: true,
      fact: `not stated; a guess from Last-Modified: ${duration(lifetimeMs)}`,
      remedy: 'takes a tenth of the time since it was modified, a day at most',
      options: ['cache.defaultTtlSeconds'],
    };
  }
  return {
    topic,
    found: 'none',
    isLack: true,
    fact: 'not stated, and nothing to guess it from',
    remedy: 'asks the origin again for each plain request; ranges reuse what is stored for a minute',
    options: ['cache.defaultTtlSeconds', 'cache.rangeReuseSeconds'],
  };
}

/** Says which request fields select among the responses of one URL. */
function findVariants({ whole, encoded }: Observations): Finding[] {
  const converted = encoded?.kind === 'answer' ? encoded : undefined;
  const encoding = converted && fieldValue(converted.fields, 'content-encoding');
  const isEncoded = encoding !== undefined && encoding.toLowerCase() !== 'identity';
  const names = [...new Set([...varyNames(whole.fields), ...varyNames(converted?.fields ?? [])])];
  return [varyFinding(names, isEncoded ? encoding : undefined)];
}

function varyFinding(names: readonly string[], encoding: string | undefined): Finding {
  const topic = 'vary';
  const text = `Vary: ${names.map(wireFieldName).join(', ')}`;
  if (names.includes('*')) {
    return { topic, found: 'any', isLack: true, fact: 'Vary: *', remedy: 'passes it on each time, and stores nothing' };
  }
  if (encoding !== undefined && !names.includes('accept-encoding')) {
    return {
      topic,
      found: 'unsaid',
      isLack: true,
      fact: `it sends ${encoding} to clients that accept it, and does not say so in Vary`,
      remedy: 'gives the encoded response only to requests with the same Accept-Encoding',
      options: ['cache.acceptEncoding'],
    };
  }
  const many = names.filter((name) => name === 'cookie' || name === 'user-agent');
  if (many.length > 0) {
    return {
      topic,
      found: 'many',
      isLack: true,
      fact: `${text}: nearly every client has a copy of its own`,
      remedy: 'stores each variant; better remove these fields from Vary at the origin, or from the requests',
      options: ['fields.toOrigin'],
    };
  }
  if (names.length === 0) return { topic, found: 'none', isLack: false, fact: 'none: one response for all clients' };
  const options = names.includes('accept-encoding') ? { options: ['cache.acceptEncoding'] } : {};
  return { topic, found: 'some', isLack: false, fact: text, ...options };
}

/** Says which requests share the stored response: all where it states a lifetime, otherwise only equal ones. */
function findSharing(
  { whole }: Observations,
  policy: StoringPolicy & { readonly identityFields: IdentityRules },
): Finding[] {
  const decision = decideStoring({ request: { method: 'GET', fields: whole.asked }, response: whole, policy });
  if (decision.kind === 'refuse') return [];
  const topic = 'sharing';
  if (permitsSharing(whole, policy)) {
    return [{ topic, found: 'all', isLack: false, fact: 'with all clients: it states a lifetime' }];
  }
  const names = [...new Set(identityParts(whole.asked, policy.identityFields).map(([name]) => name))];
  const asked = names.map(wirePartName).join(', ');
  return [
    {
      topic,
      found: 'equals',
      isLack: names.length > 0,
      fact: 'it states no lifetime that permits sharing, and may be meant for one client',
      remedy:
        names.length === 0
          ? 'shares it among anonymous clients, and keeps others apart by their cookies and unknown fields'
          : `gives it only to requests with the same ${asked}`,
      options: ['cache.identityFields', 'cache.defaultTtlSeconds'],
    },
  ];
}

function wirePartName(name: string): string {
  return name.startsWith('cookie:') ? `cookie ${name.slice('cookie:'.length)}` : wireFieldName(name);
}

/** Says what Rangeway does with Set-Cookie: from the store, all clients would get it. */
function findCookies({ whole }: Observations, policy: StoringPolicy): Finding[] {
  if (!hasField(whole.fields, 'set-cookie')) return [];
  const count = fieldLines(whole.fields, 'set-cookie').length;
  const fact = `it sets ${count} ${count === 1 ? 'cookie' : 'cookies'} on this response`;
  const options = ['cache.setCookie'];
  const decision = decideStoring({ request: { method: 'GET', fields: whole.asked }, response: whole, policy });
  if (decision.kind === 'store') {
    const remedy =
      'stores it as it is, because it states a lifetime: every client gets the cookie; "strip" stores it without';
    return [{ topic: 'cookies', found: 'shared', isLack: true, fact, remedy, options }];
  }
  if (decision.reason !== 'set-cookie') return [{ topic: 'cookies', found: 'relayed', isLack: false, fact }];
  const remedy = 'does not store it: a cookie is for one client; "strip" stores it without, where it states a lifetime';
  return [{ topic: 'cookies', found: 'relayed', isLack: true, fact, remedy, options }];
}
