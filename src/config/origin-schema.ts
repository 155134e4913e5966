/** The options of a route's origin, or origins: where they are, and how they are spoken to. */

import * as z from 'zod';
import { count, hostChoice, names, originUrl, seconds, size } from './values.ts';

const health = z
  .strictObject({
    failures: count(1, 1000)
      .default(3)
      .describe('So many failures in a row (no connection, no answer, 502, 503, 504), and an origin counts as ill.'),
    restSeconds: seconds(0.01, 3600)
      .default(10)
      .describe('How long an ill origin is spared then, longer each time it fails again, up to ten times that.'),
    check: z
      .strictObject({
        path: z
          .string()
          .regex(/^\/[\x21-\x7e]*$/, 'expected a path that begins with "/"')
          .describe('What each origin is asked for (GET), as it stands; any 2xx or 3xx is well.'),
        intervalSeconds: seconds(0.01, 86_400).default(10).describe('How often.'),
        timeoutSeconds: seconds(0.01, 600).default(5).describe('How long the answer may take.'),
        passes: count(1, 100).default(2).describe('So many in a row, and an ill origin counts as well again.'),
      })
      .optional()
      .describe('Asks every origin now and then. Without it only requests tell.'),
  })
  .prefault({})
  .describe(
    'When an origin is not asked. One that has no alternative is always asked; where none is well, the one that has rested longest.',
  );

const retries = z
  .strictObject({
    attempts: count(0, 10)
      .default(2)
      .describe(
        'How often a request is sent again, to another origin if there is one: when no response came, those whose method is idempotent and which have no body, and any that were not sent at all; when another origin may do better than 502, 503 or 504, GET and HEAD.',
      ),
    budgetPercent: count(0, 100)
      .default(20)
      .describe('Retries may be so many percent of the requests of late, and ten besides.'),
  })
  .prefault({})
  .describe('Sending requests again (RFC 9110 §9.2.2).');

const originOptions = z.strictObject({
  url: originUrl.describe(
    'Where the origin is, such as "http://127.0.0.1:3000", or "unix:/run/app.sock"; a path in a URL is put before every path.',
  ),
  alternatives: names(originUrl, 100)
    .default([])
    .describe('More origins that serve the same, with the same path in their URLs.'),
  choice: z
    .enum(['first', 'spread'])
    .default('first')
    .describe(
      'Of several origins: "first", the first that is well; or "spread", the one with the fewest requests. Parts of one representation are asked of the one that it came from.',
    ),
  protocol: z
    .enum(['http1', 'http2'])
    .default('http1')
    .describe('"http2" speaks HTTP/2 with origins over TLS that have it (ALPN).'),
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
  connections: count(1, 65_535)
    .default(128)
    .describe(
      'The most connections to one origin at a time, and no more than an eighth of the file descriptors of a process; over HTTP/2 each carries up to 100 requests, and those that the origin is closing come besides, as many again at most.',
    ),
  connectionsPerClient: count(1, 65_535)
    .optional()
    .describe(
      'The most of them that serve requests of one client at a time; its requests beyond wait, and those of others go first. Without it: a quarter of "connections".',
    ),
  keepAliveTimeoutSeconds: seconds(0.01, 3600)
    .default(4)
    .describe('How long an idle connection is kept for the next request. Less than the origin keeps it.'),
  caFile: z
    .string()
    .min(1)
    .optional()
    .describe('A file of PEM certificates to trust for this origin in place of the usual ones. Relative to this file.'),
  certFile: z
    .string()
    .min(1)
    .optional()
    .describe('A PEM file with the certificate that is shown to the origin. Relative to this file.'),
  keyFile: z.string().min(1).optional().describe('The PEM file of its private key. Relative to this file.'),
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
    .default('store')
    .describe(
      'What becomes of a response without Content-Length and chunks, which ends where the origin closes the connection: "store" stores it, and answers ranges from it, where the connection was closed in order (over TLS: with close_notify), and breaks it off where it was reset; "relay" passes it on without storing it, and over TLS takes any end for the end.',
    ),
  retries,
  health,
});

/** What the options below are compared with. */
const comparedOptions = originOptions
  .pick({
    url: true,
    alternatives: true,
    caFile: true,
    certFile: true,
    keyFile: true,
    insecureTls: true,
    protocol: true,
    health: true,
  })
  .loose();

type OriginOptions = z.output<typeof originOptions>;
type Complain = (path: readonly (string | number)[], message: string) => void;

const forTlsOnly = 'means something for an https:// origin only';

const origin = originOptions.superRefine(
  (value, context) => {
    const complain: Complain = (path, message) => context.addIssue({ code: 'custom', path: [...path], message });
    compareAlternatives(value, complain);
    compareTls(value, complain);
  },
  { when: ({ value }) => comparedOptions.safeParse(value).success },
);

function compareAlternatives({ url, alternatives, health: { check } }: OriginOptions, complain: Complain): void {
  for (const [index, each] of alternatives.entries()) {
    if (each === url) complain(['alternatives', index], 'is the same as url');
    else if (pathOf(each) !== pathOf(url)) complain(['alternatives', index], 'must have the same path as url');
  }
  if (alternatives.length > 0 || check === undefined) return;
  complain(['health', 'check'], 'means something with alternatives only: a lone origin is always asked');
}

function compareTls(value: OriginOptions, complain: Complain): void {
  const { url, alternatives, caFile, certFile, keyFile, insecureTls, protocol } = value;
  if (![url, ...alternatives].some((each) => each.startsWith('https:'))) {
    for (const name of ['caFile', 'certFile', 'keyFile'] as const) {
      if (value[name] !== undefined) complain([name], forTlsOnly);
    }
    if (insecureTls) complain(['insecureTls'], forTlsOnly);
    if (protocol === 'http2') complain(['protocol'], `"http2" ${forTlsOnly}`);
  }
  if (insecureTls && caFile !== undefined) complain(['caFile'], 'is not used while insecureTls is true');
  if (certFile !== undefined && keyFile === undefined) complain(['keyFile'], 'is required with certFile');
  if (certFile === undefined && keyFile !== undefined) complain(['certFile'], 'is required with keyFile');
}

/** The path that is put before every path; a Unix socket has none. */
function pathOf(url: string): string {
  return url.startsWith('unix:') ? '' : new URL(url).pathname.replace(/\/$/, '');
}

/** Where the responses come from: a URL, or one with options. */
export const originSchema = z
  .union([originUrl.transform((url) => ({ url })).pipe(origin), origin])
  .describe('Where the responses come from: a URL, or a URL with options.');
