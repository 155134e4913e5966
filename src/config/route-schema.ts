/** The options of one route: what it matches, its origin and guard, its cache, ranges, fills and purges. */

import * as z from 'zod';
import { cacheSchema } from './cache-schema.ts';
import { accessSchema, corsSchema, fieldRulesSchema, routeLimitsSchema, securitySchema } from './guard-schema.ts';
import { originSchema } from './origin-schema.ts';
import {
  countOption,
  errorStatusOrClass,
  hostPattern,
  pathPrefix,
  secondsOption,
  size,
  trustedPeer,
} from './values.ts';

const match = z
  .strictObject({
    hosts: z
      .array(hostPattern)
      .min(1)
      .optional()
      .describe(
        'The hosts that the route serves, without ports: names, or "*.example.org" for all names below a name. Without this: every host.',
      ),
    pathPrefix: pathPrefix
      .optional()
      .describe(
        'The paths that the route serves: "/media" and all below it; with "/media/" only what is below. Without this: every path.',
      ),
  })
  .optional()
  .describe(
    'Which requests the route serves. Where several routes match, the one with the most exact host is used, then the one with the longest path.',
  );

const ranges = z
  .strictObject({
    maxRanges: countOption(1, 1000)
      .default(100)
      .describe('The most ranges in one request; a Range field with more is ignored (RFC 9110 §14.2).'),
    coalesceGapBytes: countOption(0, 1_048_576)
      .default(0)
      .describe(
        'Ranges of one request with fewer bytes than this between them are sent as one part. By default only ranges that overlap or adjoin are: some clients accept no other parts than they asked for.',
      ),
  })
  .prefault({})
  .describe('Answering Range requests.');

const prefetch = z
  .strictObject({
    segments: countOption(1, 20)
      .default(2)
      .describe('How many segments after the one that a client asks for are prefetched.'),
    segmentBytes: size({ min: '1KB', max: '1GB' })
      .prefault('32MB')
      .describe('A segment with more bytes than this is not prefetched.'),
    concurrent: countOption(1, 64)
      .default(4)
      .describe('How many prefetches of the route run at a time, for all clients together.'),
  })
  .optional()
  .describe(
    'Fetches the next segments of an HLS playlist or a DASH manifest into the store when a client asks for one of them, before its player asks for the next, one after the other; {} is enough. Without it, nothing is prefetched. Clients go first: a prefetch begins only while less than half of the connections of the origin are in use.',
  );

const parallel = z
  .strictObject({
    requests: countOption(2, 16)
      .default(4)
      .describe('How many transfers of one representation run at a time, the first one included.'),
    minBytes: size({ min: '1MB', max: '1000TB' })
      .prefault('16MiB')
      .describe('The length from which a representation is fetched like this.'),
    partBytes: size({ min: '1MB', max: '1GB' })
      .prefault('4MiB')
      .describe(
        'The bytes of one part. Shorter parts arrive closer to the order in which a client reads; each costs one round trip to the origin.',
      ),
  })
  .optional()
  .describe(
    'Fetches a large representation by several range requests at a time, for lines on which one connection is slow; {} is enough. Without it, one transfer brings what a client reads in order. The origin must send ranges, and a strong validator. The parts use at most half of the connections that the client may have.',
  );

const fill = z
  .strictObject({
    onAbort: z
      .enum(['finish', 'stop'])
      .default('finish')
      .describe(
        'Whether a transfer that could not be resumed later is finished or stopped when the last client that waits for it leaves.',
      ),
    finishMaxLeftBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('With onAbort "finish": a transfer with more bytes than this left is stopped all the same.'),
    finishMaxSizeBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('With onAbort "finish": a transfer of a representation larger than this is stopped all the same.'),
    finishMaxPerClient: countOption(0, 1_000_000)
      .default(3)
      .describe(
        'With onAbort "finish": how many transfers that no client reads any more go on at a time for one client. Further ones stop when their last reader leaves, or has got all its bytes. A transfer with a block or less left is finished all the same.',
      ),
    complete: z
      .enum(['always', 'whenSmaller', 'never'])
      .default('whenSmaller')
      .describe(
        'Whether the absent bytes of a representation are fetched although no client asks for them, where the origin supports ranges: "whenSmaller" for representations smaller than completeBelowBytes.',
      ),
    completeBelowBytes: size({ min: '0B', max: '1000TB' })
      .prefault(1_048_576)
      .describe('With complete "whenSmaller": the length below which it applies.'),
    openRanges: z
      .enum(['grow', 'whole'])
      .default('grow')
      .describe(
        'How a range without an end ("bytes=0-") is fetched where the origin supports ranges: "grow" fetches what the client reads and little more, because players ask for everything and leave early. It asks for one block first and then for spans that grow as the client reads on (faster where the origin is slow to answer); where parts of the origin have not been joined yet, and where the URL looks as if it held a token or a signature, or has refused a further part, it sends one request, reads it as fast as the client does, and ends it when the client leaves. "whole" asks for everything at once.',
      ),
    headLength: z
      .enum(['origin', 'fetch'])
      .default('origin')
      .describe(
        'How HEAD is answered where the origin states no length and nothing is stored: "origin": without a length; "fetch": the body is fetched into the store, and HEAD waits up to lengthWaitSeconds for its length. "fetch" is for clients that look for a length before they ask for ranges, such as GDAL; each HEAD can then cost the origin a whole body. A response with a content coding gets no length in either case, unless the origin states it.',
      ),
    resumeAttempts: countOption(0, 100)
      .default(6)
      .describe(
        'How often a transfer that breaks off is resumed before it is given up, after pauses of 0.1, 0.2, 0.4 seconds and so on up to 5, while its clients wait. Progress resets the count. With 0, clients are cut off at once.',
      ),
    lengthWaitSeconds: secondsOption(0, 600)
      .default(10)
      .describe(
        'How long "bytes=0-", and HEAD of a body that is being fetched, wait for a length that the origin does not state beforehand; other ranges wait up to six times as long for their bytes or the length. After that the whole body is sent as it arrives, and HEAD is answered without a length. Where the body comes no faster than a stream (1 MiB a second), "bytes=0-" waits a fifth of this, and other ranges half.',
      ),
    prefetch,
    parallel,
  })
  .prefault({})
  .describe('Transfers from the origin into the store.');

const purge = z
  .strictObject({
    peers: z
      .array(trustedPeer)
      .max(100)
      .default([])
      .describe(
        'Addresses, and blocks such as "10.0.0.0/8", of clients that may remove stored responses with the method PURGE; "unix" stands for all clients of a Unix socket. Other clients get 403. With an empty list no client may, and PURGE is like any other method.',
      ),
    by: z
      .array(z.enum(['url', 'prefix', 'tag']))
      .min(1)
      .default(['url'])
      .describe(
        'What a PURGE may select: "url": the URL of the request; "prefix": with Rangeway-Purge: prefix, everything that the route stores whose URL begins like that; "tag": everything with a tag that the Surrogate-Key or Cache-Tag field of the request names, on any route. With Rangeway-Purge: soft, entries are not removed, but validated before they are used again.',
      ),
  })
  .prefault({})
  .describe('Removing stored responses by requests to the listeners; the API of the admin listener can do more.');

/** Fields that a signature replaces. */
const signatureFields: ReadonlySet<string> = new Set([
  'authorization',
  'x-amz-content-sha256',
  'x-amz-date',
  'x-amz-security-token',
]);

/** One route. */
export const routeSchema = z
  .strictObject({
    name: z.string().min(1).max(100).optional().describe('A name for logs.'),
    match,
    stripPathPrefix: z.boolean().default(false).describe('Whether the origin gets the path without match.pathPrefix.'),
    origin: originSchema,
    access: accessSchema,
    cors: corsSchema,
    security: securitySchema,
    fields: fieldRulesSchema,
    limits: routeLimitsSchema,
    errorPages: z
      .record(
        errorStatusOrClass,
        z
          .string()
          .regex(
            /.\.(?:html?|txt|json|xml|svg)$/i,
            'expected a file whose name ends in .html, .htm, .txt, .json, .xml or .svg',
          ),
      )
      .default({})
      .describe(
        'Files of at most 1MiB, in UTF-8, that are sent in place of our own errors, by status or class, such as {"502": "./502.html", "5xx": "./error.html"}, to clients that accept their type; never in place of an error of the origin. Relative to this file. Read at the start and at a reload.',
      ),
    cache: cacheSchema,
    ranges,
    fill,
    purge,
  })
  .superRefine(({ cache, fill: { prefetch: wanted }, origin, limits }, context) => {
    if (wanted === undefined) return;
    const complain = (message: string) => context.addIssue({ code: 'custom', path: ['fill', 'prefetch'], message });
    if (!cache.enabled) complain('needs cache.enabled');
    if (cache.storeAfterUses > 1) complain('needs cache.storeAfterUses 1: a prefetched segment has not been used yet');
    const { connections = Number.POSITIVE_INFINITY } = origin;
    if (connections * (1 + origin.alternatives.length) < 2)
      complain('needs two origin.connections: half are for clients');
    if (limits.fills === 1) complain('needs two limits.fills: half are for clients');
  })
  .superRefine(({ origin: { signing }, fields: { toOrigin } }, context) => {
    if (signing === undefined) return;
    for (const option of ['set', 'add', 'setSecret'] as const) {
      for (const name of Object.keys(toOrigin[option]).filter((each) => signatureFields.has(each))) {
        const message = 'is a field of the signature that origin.signing makes';
        context.addIssue({ code: 'custom', path: ['fields', 'toOrigin', option, name], message });
      }
    }
  })
  .superRefine(({ cache, fill: { parallel: wanted }, origin }, context) => {
    if (wanted === undefined) return;
    const complain = (message: string) => context.addIssue({ code: 'custom', path: ['fill', 'parallel'], message });
    if (!cache.enabled) complain('needs cache.enabled');
    if (origin.ranges === 'never') complain('needs origin.ranges "auto" or "always"');
    const { connections = Number.POSITIVE_INFINITY } = origin;
    const share = origin.connectionsPerClient ?? Math.ceil(connections / 4);
    if (origin.protocol === 'http1' && Math.min(share, connections) < 4) {
      complain('needs four origin.connectionsPerClient: half are for other requests of the client');
    }
  });

/** The options of a route that decide what it matches. */
export const routeMatchSchema = z.looseObject({
  match,
  name: routeSchema.shape.name,
  stripPathPrefix: routeSchema.shape.stripPathPrefix,
});
