/** The options of one route: what it matches, its origin and guard, and how its responses are kept and cut. */

import * as z from 'zod';
import { cacheSchema } from './cache-schema.ts';
import { accessSchema, corsSchema, fieldRulesSchema, routeLimitsSchema, securitySchema } from './guard-schema.ts';
import { originSchema } from './origin-schema.ts';
import { count, errorStatusOrClass, hostPattern, pathPrefix, seconds, size, trustedPeer } from './values.ts';

const match = z
  .strictObject({
    hosts: z
      .array(hostPattern)
      .min(1)
      .optional()
      .describe(
        'The hosts that the route serves, without ports: names, or "*.example.org" for all names below one. Without this: every host.',
      ),
    pathPrefix: pathPrefix
      .optional()
      .describe(
        'The paths that the route serves: "/media" and all below it; with "/media/" only what is below. Without this: every path.',
      ),
  })
  .optional()
  .describe(
    'Which requests the route serves. Of several routes the one with the most exact host, then the longest path, is taken.',
  );

const ranges = z
  .strictObject({
    maxRanges: count(1, 1000)
      .default(100)
      .describe('The most ranges in one request; a Range field with more is ignored (RFC 9110 §14.2).'),
    coalesceGapBytes: count(0, 1_048_576)
      .default(80)
      .describe('Ranges of one request with fewer bytes than this between them are sent as one part.'),
  })
  .prefault({})
  .describe('Answering Range requests.');

const fill = z
  .strictObject({
    onAbort: z
      .enum(['finish', 'stop'])
      .default('finish')
      .describe(
        'What becomes of a transfer that could not be taken up again when the last client that waits for it leaves.',
      ),
    finishMaxLeftBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('With onAbort "finish": a transfer with more than this left is stopped all the same.'),
    finishMaxSizeBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('With onAbort "finish": a transfer of a representation larger than this is stopped all the same.'),
    finishMaxPerClient: count(0, 1_000_000)
      .default(3)
      .describe(
        'With onAbort "finish": how many transfers of one client go on at a time that no client reads any more; further ones stop when their last reader leaves, or has got what it wanted. What has a block or less left is finished all the same.',
      ),
    complete: z
      .enum(['always', 'whenSmaller', 'never'])
      .default('whenSmaller')
      .describe(
        'Whether the absent bytes of a representation are fetched although nobody asks for them, where the origin gives parts: "whenSmaller" for representations smaller than completeBelowBytes.',
      ),
    completeBelowBytes: size({ min: '0B', max: '1000TB' })
      .prefault(1_048_576)
      .describe('With complete "whenSmaller": the length below which it applies.'),
    openRanges: z
      .enum(['grow', 'whole'])
      .default('grow')
      .describe(
        'How a range without an end ("bytes=0-") is fetched where the origin gives parts: "grow" asks for one block first and then for spans that grow as the client reads on, faster where the origin is slow to answer, because players ask for all and leave early; "whole" asks for all of it at once.',
      ),
    headLength: z
      .enum(['origin', 'fetch'])
      .default('origin')
      .describe(
        'What HEAD gets where the origin tells no length and nothing of it is stored: "origin", no length either; "fetch" fetches the body into the store, and HEAD waits for its length up to lengthWaitSeconds. For clients that look for a length before they ask for ranges, as GDAL does; each HEAD can then cost the origin a whole body.',
      ),
    resumeAttempts: count(0, 100)
      .default(6)
      .describe(
        'How often a transfer that breaks off is taken up again before it is given up, after pauses of 0.1, 0.2, 0.4 seconds and so on up to 5, while its clients wait. Progress gives all attempts back; with 0 clients are cut off at once.',
      ),
    lengthWaitSeconds: seconds(0, 600)
      .default(10)
      .describe(
        'How long "bytes=0-", and HEAD of what is being fetched, wait for a length that the origin does not tell beforehand; then the whole is sent as it comes, and HEAD is answered without a length. Other ranges that need the length wait for it.',
      ),
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
        'Addresses, and blocks such as "10.0.0.0/8", of clients that may remove what is stored by the method PURGE; "unix" for all who connect to a Unix socket. Others get 403. Where the list is empty nobody may, and PURGE is like any other method.',
      ),
    by: z
      .array(z.enum(['url', 'prefix', 'tag']))
      .min(1)
      .default(['url'])
      .describe(
        'By what they may: "url" is the URL of the request; "prefix", with Rangeway-Purge: prefix, all that the route stores whose URL begins like that; "tag" all that has a tag which the Surrogate-Key or Cache-Tag field of the request names, on whatever route. With Rangeway-Purge: soft it is not removed, but validated before it is used again.',
      ),
  })
  .prefault({})
  .describe('Removing what is stored by requests to the listeners; the API of the admin listener can do more.');

/** One route. */
export const routeSchema = z.strictObject({
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
      'Files of at most 1MiB, in UTF-8, that are sent in place of our own errors, by status or class, such as {"502": "./502.html", "5xx": "./error.html"}, to clients that accept their type; never in place of an error of the origin. Relative to this file. Read once, at the start.',
    ),
  cache: cacheSchema,
  ranges,
  fill,
  purge,
});

/** As much of a route as tells what it matches. */
export const routeMatchSchema = z.looseObject({
  match,
  name: routeSchema.shape.name,
  stripPathPrefix: routeSchema.shape.stripPathPrefix,
});
