/** The options of one route: what it matches, its origin, and how its responses are kept and cut. */

import * as z from 'zod';
import { cacheSchema } from './cache-schema.ts';
import { count, hostChoice, hostPattern, originUrl, pathPrefix, seconds, size } from './values.ts';

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

const originOptions = z.strictObject({
  url: originUrl.describe(
    'Where the origin is, such as "http://127.0.0.1:3000"; a path in it is put before every path.',
  ),
  host: hostChoice
    .default('origin')
    .describe(
      'The Host that the origin sees: "origin", its own; "keep", the one that the client sent; or a host name.',
    ),
  connectTimeoutSeconds: seconds(0.01, 600).default(10).describe('How long making a connection may take.'),
  headersTimeoutSeconds: seconds(0.01, 86_400)
    .default(60)
    .describe('How long the origin may take, after a request, to send the head of its response.'),
  bodyTimeoutSeconds: seconds(0.01, 86_400)
    .default(60)
    .describe('How long the origin may pause within the body of a response.'),
  connections: count(1, 65_535).default(128).describe('The most connections to the origin at a time.'),
  keepAliveTimeoutSeconds: seconds(0.01, 3600)
    .default(4)
    .describe('How long an idle connection is kept for the next request. Less than the origin keeps it.'),
  caFile: z
    .string()
    .min(1)
    .optional()
    .describe('A file of PEM certificates to trust for this origin in place of the usual ones. Relative to this file.'),
  insecureTls: z
    .boolean()
    .default(false)
    .describe('Accept any certificate from the origin. Whoever sits between can then read and change everything.'),
  ranges: z
    .enum(['auto', 'never', 'always'])
    .default('auto')
    .describe(
      'Whether the origin is asked for parts of a representation: "auto" finds out whether it gives any, "never" asks for the whole, "always" goes on asking for parts whatever came before.',
    ),
  seekAheadBytes: size({ min: '0B', max: '1TB' })
    .prefault(2_097_152)
    .describe(
      'A reader this far ahead of a transfer gets one of its own, where the origin gives parts, unless the transfer will be there within half a second.',
    ),
  closeDelimited: z
    .enum(['relay', 'store'])
    .default('relay')
    .describe(
      'A response whose end only the end of the connection tells may have been cut off unnoticed: "relay" passes it on without storing it, "store" trusts it.',
    ),
});

const tlsOptions = originOptions.pick({ url: true, caFile: true, insecureTls: true }).loose();

const origin = originOptions.superRefine(
  (value, context) => {
    const overTls = value.url.startsWith('https:');
    if (!overTls && value.caFile !== undefined) {
      context.addIssue({ code: 'custom', path: ['caFile'], message: 'means something for an https:// origin only' });
    }
    if (!overTls && value.insecureTls) {
      context.addIssue({
        code: 'custom',
        path: ['insecureTls'],
        message: 'means something for an https:// origin only',
      });
    }
    if (value.insecureTls && value.caFile !== undefined) {
      context.addIssue({ code: 'custom', path: ['caFile'], message: 'is not used while insecureTls is true' });
    }
  },
  { when: ({ value }) => tlsOptions.safeParse(value).success },
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
    complete: z
      .enum(['always', 'whenSmaller', 'never'])
      .default('whenSmaller')
      .describe(
        'Whether the absent bytes of a representation are fetched although nobody asks for them, where the origin gives parts: "whenSmaller" for representations smaller than completeBelowBytes.',
      ),
    completeBelowBytes: size({ min: '0B', max: '1000TB' })
      .prefault(1_048_576)
      .describe('With complete "whenSmaller": the length below which it applies.'),
    resumeAttempts: count(0, 100)
      .default(6)
      .describe(
        'How often a transfer that breaks off is taken up again before it is given up, each time after a longer pause. Progress gives all attempts back.',
      ),
    lengthWaitSeconds: seconds(0, 600)
      .default(10)
      .describe(
        'How long "bytes=0-" waits for a length that the origin does not tell beforehand; then the whole is sent as it comes. Other ranges that need the length wait for it.',
      ),
  })
  .prefault({})
  .describe('Transfers from the origin into the store.');

/** One route. */
export const routeSchema = z.strictObject({
  name: z.string().min(1).max(100).optional().describe('A name for logs.'),
  match,
  stripPathPrefix: z.boolean().default(false).describe('Whether the origin gets the path without match.pathPrefix.'),
  origin: z
    .union([originUrl.transform((url) => ({ url })).pipe(origin), origin])
    .describe('Where the responses come from: a URL, or a URL with options.'),
  cache: cacheSchema,
  ranges,
  fill,
});

/** As much of a route as tells what it matches. */
export const routeMatchSchema = z.looseObject({
  match,
  name: routeSchema.shape.name,
  stripPathPrefix: routeSchema.shape.stripPathPrefix,
});
