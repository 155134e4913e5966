/** The options of a route's cache: what is stored, under which key, for how long, and for which requests. */

import * as z from 'zod';
import {
  cookieName,
  cookiePattern,
  countOption,
  distinctNames,
  fieldName,
  fieldPattern,
  parameterPattern,
  secondsOption,
  statusOrClass,
} from './values.ts';

const yearSeconds = 31_536_000;

/** Fields that every cache reads. They target no cache in particular. */
const generalFields = new Set(['cache-control', 'expires', 'pragma']);
const targetedField = fieldName('CDN-Cache-Control').refine(
  (name) => !generalFields.has(name),
  'is read anyway; expected a field for some caches only, such as "CDN-Cache-Control"',
);

/** Fields that ask for a part of a representation or set a condition. A key stands for the whole representation. */
const selectingFields = new Set([
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
]);
const keyField = fieldName('Accept-Language').refine(
  (name) => !selectingFields.has(name),
  'must be left out: the whole representation is stored, and it is the same for all values of this field',
);

const ttlByStatus = z
  .record(statusOrClass, secondsOption(0, yearSeconds), {
    error: ({ code }) => (code === 'invalid_type' ? 'expected lifetimes by status such as {"404": 60}' : undefined),
  })
  .default({});

const parameterNames = distinctNames(parameterPattern, 100);

const parameterChoice = z
  .strictObject({
    keep: parameterNames
      .optional()
      .describe('Only parameters with these names are in the key; "page_*" stands for all that begin with "page_".'),
    ignore: parameterNames
      .optional()
      .describe('Parameters with these names are not in the key; "utm_*" stands for all that begin with "utm_".'),
  })
  .transform(({ keep, ignore }, context) => {
    if (keep !== undefined && ignore === undefined) return { keep };
    if (ignore !== undefined && keep === undefined) return { ignore };
    if (context.issues.length > 0) return z.NEVER;
    context.addIssue(keep === undefined ? 'needs keep or ignore' : 'cannot have both keep and ignore');
    return z.NEVER;
  });

const key = z
  .strictObject({
    query: z
      .union([parameterChoice, z.enum(['all', 'none'])], {
        error: 'expected "all", "none" or an object such as {"ignore": ["utm_*"]}',
      })
      .prefault('all')
      .describe(
        'Which parameters of the query are in the key: "all", "none", or some by name, percent-decoded. The origin still gets the whole query, so leave out only parameters that cannot change its responses. A parameter with ";" in it is in the key unless this is "none", because some origins see two parameters there.',
      ),
    fields: distinctNames(keyField, 20)
      .default([])
      .describe(
        'Request fields whose values distinguish stored responses, as if every response had them in its Vary (RFC 9111 §4.1).',
      ),
    cookies: distinctNames(cookieName, 20)
      .default([])
      .describe(
        'Cookies whose values distinguish stored responses (RFC 6265 §5.4). The origin still gets all cookies.',
      ),
  })
  .superRefine(({ fields, cookies }, context) => {
    if (!fields.includes('cookie') || cookies.length === 0) return;
    context.addIssue({
      code: 'custom',
      path: ['cookies'],
      message: 'must be left out: key.fields has Cookie, and with it all of them',
    });
  })
  .prefault({})
  .describe('What distinguishes stored responses, besides host, path and Vary (RFC 9111 §2, §4.1).');

const identityFields = z
  .strictObject({
    ignore: distinctNames(fieldPattern, 100)
      .default([])
      .describe(
        'Fields that do not identify the client, besides those that are known not to (Accept, User-Agent, tracing …); "X-App-*" stands for all that begin with "X-App-".',
      ),
    ignoreCookies: distinctNames(cookiePattern, 100)
      .default([])
      .describe(
        'Cookies that do not identify the client, besides those that only count visits (_ga, _fbp, _pk_id …); "theme_*" stands for all that begin with "theme_".',
      ),
    include: distinctNames(fieldPattern, 100)
      .default([])
      .describe(
        'Fields that identify the client although they usually do not, such as "X-Forwarded-For" or "User-Agent".',
      ),
    includeCookies: distinctNames(cookiePattern, 100)
      .default([])
      .describe('Cookies that identify the client although they usually only count visits.'),
  })
  .superRefine(({ include }, context) => {
    for (const [index, name] of include.entries()) {
      if (!selectingFields.has(name)) continue;
      const message =
        'must be left out: the whole representation is stored, and it is the same for all values of this field';
      context.addIssue({ code: 'custom', path: ['include', index], message });
    }
  })
  .prefault({})
  .describe(
    'Which parts of a request identify the client. A response for which neither the origin nor defaultTtlSeconds states a lifetime is given only to requests that are equal in all of them. Every field and cookie counts, except those known to say nothing about the client.',
  );

const bypass = z
  .strictObject({
    fields: distinctNames(fieldName('Authorization'), 100)
      .default([])
      .describe('Requests that have one of these fields, whatever its value.'),
    cookies: distinctNames(cookiePattern, 100)
      .default([])
      .describe('Requests that have one of these cookies; "session_*" stands for all that begin with "session_".'),
    queryParameters: distinctNames(parameterPattern, 100)
      .default([])
      .describe(
        'Requests that have one of these query parameters; "preview_*" stands for all that begin with "preview_".',
      ),
  })
  .prefault({})
  .describe(
    'Requests that bypass the cache: they are passed on, no stored response is used for them, and their responses are not stored.',
  );

/** Storing and reusing responses. */
export const cacheSchema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Whether responses are stored and reused. If not, all are relayed.'),
    targetedFields: distinctNames(targetedField, 10)
      .prefault(['Rangeway-Cache-Control', 'CDN-Cache-Control'])
      .describe(
        'Response fields that replace Cache-Control and Expires for this cache: the first of them that a response has counts (RFC 9213 §2.2). "Surrogate-Control" is read by its own, older syntax, and announced to the origin. An empty list switches this off.',
      ),
    requestDirectives: z
      .enum(['obey', 'ignore'])
      .default('obey')
      .describe(
        'Whether the Cache-Control and Pragma of clients count (RFC 9111 §5.2.1, §5.4). With "ignore" a client\'s reload is answered from the store.',
      ),
    setCookie: z
      .enum(['store', 'strip', 'refuse'])
      .default('refuse')
      .describe(
        'How a response with Set-Cookie is handled (RFC 9111 §7.3): "refuse" does not store it, "strip" stores it without the cookie, "store" stores it and gives the cookie to every client. "strip" and "store" apply only to responses with an explicit lifetime.',
      ),
    defaultTtlSeconds: secondsOption(0, yearSeconds)
      .default(0)
      .describe('How long a response is fresh where the origin states no lifetime (RFC 9111 §4.2.2); not for errors.'),
    defaultTtlByStatus: ttlByStatus.describe(
      'The same by status, in seconds, for errors too, such as {"404": 60, "5xx": 1}. A status takes precedence over its class, and both over defaultTtlSeconds.',
    ),
    overrideTtlByStatus: ttlByStatus.describe(
      'How long a response is fresh whatever lifetime the origin states (RFC 9111 §4.2.1), by status, in seconds, such as {"2xx": 3600}. Does not override no-store, private, no-cache and must-revalidate.',
    ),
    staleIfErrorSeconds: secondsOption(0, yearSeconds)
      .default(604_800)
      .describe(
        'How long past its lifetime a response is served when the origin fails, where the origin does not say (RFC 5861 §4, RFC 9111 §4.2.4).',
      ),
    staleWhileRevalidateSeconds: secondsOption(0, yearSeconds)
      .default(0)
      .describe(
        'How long past its lifetime a response is served at once while it is validated, where the origin does not say (RFC 5861 §3).',
      ),
    key,
    identityFields,
    acceptEncoding: z
      .enum(['asSent', 'normalise', 'identity'])
      .default('asSent')
      .describe(
        'The Accept-Encoding that the origin gets (RFC 9110 §12.5.3): "asSent": that of the client; "normalise": those of zstd, br and gzip that the client accepts, in that order, or "identity". With "normalise" few variants are stored where Vary has Accept-Encoding. "identity" asks for no content coding: for media, archives and data files, so that HEAD, GET and ranges are about the same bytes, whatever an origin would compress.',
      ),
    bypass,
    rangeReuseSeconds: secondsOption(0, 86_400)
      .default(60)
      .describe(
        'How long Range requests reuse a stored response for which the origin states no freshness at all, so that a player that seeks does not download the file once per seek.',
      ),
    storeAfterUses: countOption(1, 1000)
      .default(1)
      .describe(
        'How often a response must have been requested recently before it is stored; 1 stores it at once, 2 keeps out responses that are requested only once.',
      ),
    pinSeconds: secondsOption(0, 604_800)
      .default(0)
      .describe(
        'How long a stored response that a new version has replaced is kept for clients that resume with its validator (If-Range or If-Match).',
      ),
    ownEntityTags: z
      .enum(['whenNone', 'whenWeak'])
      .default('whenNone')
      .describe(
        'When a stored response gets a strong entity tag of our own, so that clients can resume and combine ranges: "whenNone": where the origin sends no validator; "whenWeak": also where it sends only weak ones.',
      ),
    digest: z
      .boolean()
      .default(false)
      .describe(
        'Whether each stored body is hashed, and responses from the store carry its SHA-256 as Repr-Digest (RFC 9530), so that a client that puts ranges together can verify the whole.',
      ),
  })
  .prefault({})
  .describe('Storing and reusing responses.');
