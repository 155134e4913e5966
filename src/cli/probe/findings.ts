/** From what came of asking an origin to what it has, what it lacks, and what Rangeway does about it. */

import { fieldValue } from '../../http/fields.ts';
import { selectReprDigest } from '../../semantics/digest.ts';
import type { IdentityRules } from '../../semantics/identity.ts';
import type { StoringPolicy } from '../../semantics/storing.ts';
import { sizeText } from '../text-sections.ts';
import { findCaching, findCookies, findSharing, findValidators, findVariants } from './caching-findings.ts';
import type { Finding } from './finding.ts';
import type { Observations } from './questions.ts';
import { findRanges } from './range-findings.ts';

/** How the origin was reached. */
export interface Connection {
  readonly isEncrypted: boolean;
  /** Whether its certificate was verified. */
  readonly isVerified: boolean;
}

/** What the operator decided about caching, as far as it is told of. */
export type CachingPolicy = StoringPolicy & { readonly identityFields: IdentityRules };

/** Everything that was found. Of another answer than 200 there is little to tell. */
export function findAll(observations: Observations, policy: CachingPolicy, connection: Connection): readonly Finding[] {
  const reached = [tlsFinding(connection), ...http2Findings(observations)];
  if (observations.whole.status !== 200) return [answerFinding(observations), ...reached];
  return [
    answerFinding(observations),
    lengthFinding(observations),
    ...findRanges(observations),
    ...findValidators(observations),
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

function lengthFinding({ whole }: Observations): Finding {
  const topic = 'length';
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
        fact: 'not told beforehand (chunked)',
        remedy:
          'answers ranges that name their last byte as soon as they are there; others wait for the length, which is known once it is stored',
        options: ['fill.lengthWaitSeconds'],
      };
    case 'close':
      if (whole.brokenBy === 'origin_tls_truncated') {
        return {
          topic,
          found: 'truncated',
          isLack: true,
          fact: 'not told at all: the connection ends it, and TLS is closed without close_notify, so that nobody can see a cut',
          remedy:
            'cuts its clients off where it ends so, and stores nothing; "relay" passes such responses on as whole',
          options: ['origin.closeDelimited'],
        };
      }
      return {
        topic,
        found: 'unsure',
        isLack: true,
        fact: 'not told beforehand: the end of the connection ends it',
        remedy:
          'stores it where the connection was closed in order, and not where it broke off; answers ranges that name their last byte as soon as they are there; others wait for the length, which is known once it is stored',
        options: ['origin.closeDelimited', 'fill.lengthWaitSeconds'],
      };
  }
}

function digestFindings({ whole }: Observations): Finding[] {
  const topic = 'digest';
  if (selectReprDigest(whole) !== undefined) {
    return [{ topic, found: 'yes', isLack: false, fact: 'yes: what is stored is compared with it' }];
  }
  return [
    {
      topic,
      found: 'none',
      // Hardly any origin has one, and nothing is lost by it.
      isLack: false,
      fact: 'none (Repr-Digest, RFC 9530)',
      remedy: 'keeps a checksum of every block of its own; clients get the SHA-256 of the whole where they want it',
      options: ['cache.digest'],
    },
  ];
}

function tlsFinding({ isEncrypted, isVerified }: Connection): Finding {
  const topic = 'tls';
  if (!isEncrypted) return { topic, found: 'none', isLack: false, fact: 'none' };
  if (isVerified) return { topic, found: 'verified', isLack: false, fact: 'yes, its certificate is verified' };
  const fact = 'yes; its certificate was not verified (--insecure)';
  const remedy = 'takes no such certificate unless a file with its authority is named';
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
