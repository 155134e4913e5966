/** What an origin says to caches: whether its response may be stored, for how long, and what tells it from others. */

import { wireFieldName } from '../../http/field-name.ts';
import { fieldLines, fieldValue, hasField } from '../../http/fields.ts';
import { readCacheControl } from '../../semantics/cache-control.ts';
import { ageSeconds, type Freshness, freshnessLifetime, isExplicit, lifetimeField } from '../../semantics/freshness.ts';
import { type IdentityRules, identityParts, permitsSharing } from '../../semantics/identity.ts';
import { decideStoring, type StoringPolicy } from '../../semantics/storing.ts';
import { effectiveEntityTag, parseEntityTag, strongValidator } from '../../semantics/validator.ts';
import { varyNames } from '../../semantics/vary.ts';
import { describeRefusal } from '../explain/phrases.ts';
import { duration } from '../text-sections.ts';
import type { Finding } from './finding.ts';
import type { Answer, Observations } from './questions.ts';
import { describeReply } from './range-findings.ts';

/** The validators, and whether they are of use. */
export function findValidators({ whole, conditional }: Observations): Finding[] {
  const validator = validatorFinding(whole);
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
      remedy: 'fetches it anew each time it is stale; longer lifetimes spare that',
      options: ['cache.defaultTtlSeconds', 'cache.overrideTtlByStatus'],
    },
  ];
}

function validatorFinding(whole: Answer): Finding {
  const topic = 'validator';
  const strong = strongValidator(whole, whole.responseAt);
  const entityTag = effectiveEntityTag(whole);
  const lastModified = fieldValue(whole.fields, 'last-modified');
  const parsed = entityTag === undefined ? undefined : parseEntityTag(entityTag);
  const told = [
    ...(entityTag === undefined ? [] : [`ETag ${entityTag}`]),
    ...(lastModified === undefined ? [] : [`Last-Modified ${lastModified}`]),
  ].join(', ');
  if (strong !== undefined) return { topic, found: 'strong', isLack: false, fact: `strong: ${told}` };
  if (parsed === undefined && lastModified === undefined) {
    return {
      topic,
      found: 'none',
      isLack: true,
      fact: entityTag === undefined ? 'none: neither ETag nor Last-Modified' : `none: ${told} is no entity tag`,
      remedy:
        'gives what it has stored a strong ETag of its own, which stays when the same bytes come again; parts cannot be combined, so the whole is fetched',
      options: ['cache.ownEntityTags'],
    };
  }
  return {
    topic,
    found: 'weak',
    isLack: true,
    fact: `weak: ${told}; parts cannot be combined by it`,
    remedy: 'fetches the whole; with "whenWeak" clients get a strong ETag of its own, to resume and combine ranges',
    options: ['cache.ownEntityTags'],
  };
}

/** Whether it may be stored, and how long it is fresh. */
export function findCaching({ whole }: Observations, policy: StoringPolicy): Finding[] {
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
      remedy: 'passes it on each time; a single range is cut out of it on the way',
      ...(decision.reason === 'no-freshness' ? { options: ['cache.defaultTtlSeconds'] } : {}),
    },
  ];
}

function freshnessFinding(whole: Answer, { lifetimeMs, source }: Freshness, field: string): Finding {
  const topic = 'freshness';
  const leftMs = lifetimeMs - ageSeconds(whole, whole.responseAt) * 1000;
  const options = ['cache.overrideTtlByStatus', 'cache.staleWhileRevalidateSeconds'];
  if (isExplicit(source)) {
    const from = wireFieldName(lifetimeField(source, { field }) ?? field);
    const told = source === 'expires' ? from : `${source} in ${from}`;
    if (leftMs > 0) return { topic, found: source, isLack: false, fact: `${duration(lifetimeMs)}: ${told}` };
    return {
      topic,
      found: 'stale',
      isLack: true,
      fact: `stale when it comes: ${duration(lifetimeMs)} by ${told}`,
      remedy: 'stores it, and asks the origin each time whether it has changed',
      options,
    };
  }
  if (source === 'heuristic') {
    return {
      topic,
      found: source,
      isLack: true,
      fact: `not said; a guess from Last-Modified: ${duration(lifetimeMs)}`,
      remedy: 'takes a tenth of the time since it was modified, a day at most',
      options: ['cache.defaultTtlSeconds'],
    };
  }
  return {
    topic,
    found: 'none',
    isLack: true,
    fact: 'not said, and nothing to guess it from',
    remedy: 'asks the origin again for each plain request; ranges reuse what is stored for a minute',
    options: ['cache.defaultTtlSeconds', 'cache.rangeReuseSeconds'],
  };
}

/** What tells stored responses of one URL apart. */
export function findVariants({ whole, encoded }: Observations): Finding[] {
  const converted = encoded?.kind === 'answer' ? encoded : undefined;
  const encoding = converted && fieldValue(converted.fields, 'content-encoding');
  const isEncoded = encoding !== undefined && encoding.toLowerCase() !== 'identity';
  const names = [...new Set([...varyNames(whole.fields), ...varyNames(converted?.fields ?? [])])];
  return [varyFinding(names, isEncoded ? encoding : undefined)];
}

function varyFinding(names: readonly string[], encoding: string | undefined): Finding {
  const topic = 'vary';
  const told = `Vary: ${names.map(wireFieldName).join(', ')}`;
  if (names.includes('*')) {
    return { topic, found: 'any', isLack: true, fact: 'Vary: *', remedy: 'passes it on each time, and stores nothing' };
  }
  if (encoding !== undefined && !names.includes('accept-encoding')) {
    return {
      topic,
      found: 'unsaid',
      isLack: true,
      fact: `it sends ${encoding} to who accepts that, and does not say so in Vary`,
      remedy: 'keeps what is encoded for those alone who have sent the same Accept-Encoding',
      options: ['cache.acceptEncoding'],
    };
  }
  const many = names.filter((name) => name === 'cookie' || name === 'user-agent');
  if (many.length > 0) {
    return {
      topic,
      found: 'many',
      isLack: true,
      fact: `${told}: nearly every client has a copy of its own`,
      remedy: 'stores them apart, as it must; better take these fields out of Vary at the origin, or out of requests',
      options: ['fields.toOrigin'],
    };
  }
  if (names.length === 0) return { topic, found: 'none', isLack: false, fact: 'none: one response for everybody' };
  const options = names.includes('accept-encoding') ? { options: ['cache.acceptEncoding'] } : {};
  return { topic, found: 'some', isLack: false, fact: told, ...options };
}

/** With whom a response is shared that is stored: with all, where it states so, and otherwise with equal requests. */
export function findSharing(
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
      fact: 'it states no lifetime that permits sharing, and may be for the client that asked',
      remedy:
        names.length === 0
          ? 'shares it among clients that send nothing that tells who they are, and keeps others apart by their cookies and unknown fields'
          : `gives it only to requests with the same ${asked}`,
      options: ['cache.identityFields', 'cache.defaultTtlSeconds'],
    },
  ];
}

function wirePartName(name: string): string {
  return name.startsWith('cookie:') ? `cookie ${name.slice('cookie:'.length)}` : wireFieldName(name);
}

/** Cookies that everybody would get. */
export function findCookies({ whole }: Observations, policy: StoringPolicy): Finding[] {
  if (!hasField(whole.fields, 'set-cookie')) return [];
  const count = fieldLines(whole.fields, 'set-cookie').length;
  const fact = `it sets ${count} ${count === 1 ? 'cookie' : 'cookies'} on this response`;
  const options = ['cache.setCookie'];
  const decision = decideStoring({ request: { method: 'GET', fields: whole.asked }, response: whole, policy });
  if (decision.kind === 'store') {
    const remedy =
      'stores it as it is, because it has a lifetime of its own: everybody gets the cookie; "strip" stores it without';
    return [{ topic: 'cookies', found: 'shared', isLack: true, fact, remedy, options }];
  }
  if (decision.reason !== 'set-cookie') return [{ topic: 'cookies', found: 'relayed', isLack: false, fact }];
  const remedy = 'does not store it: a cookie is for one client; "strip" stores what has a lifetime without the cookie';
  return [{ topic: 'cookies', found: 'relayed', isLack: true, fact, remedy, options }];
}
