/** The options of a route's origin or origins: where they are, and how Rangeway talks to them. */

import * as z from 'zod';
import { isNamelessOrigin } from './address.ts';
import { countOption, distinctNames, hostChoice, originUrl, secondsOption, secretSource, size } from './values.ts';

const health = z
  .strictObject({
    failures: countOption(1, 1000)
      .default(3)
      .describe(
        'An origin counts as ill after this many failures in a row: no connection, no answer, 502, 503 or 504.',
      ),
    restSeconds: secondsOption(0.01, 3600)
      .default(10)
      .describe('How long an ill origin gets no requests. Longer each time it fails again, up to ten times as long.'),
    check: z
      .strictObject({
        path: z
          .string()
          .regex(/^\/[\x21-\x7e]*$/, 'expected a path that begins with "/"')
          .describe('The path that each origin is asked for (GET), sent as it is; any 2xx or 3xx passes.'),
        intervalSeconds: secondsOption(0.01, 86_400).default(10).describe('How often each origin is checked.'),
        timeoutSeconds: secondsOption(0.01, 600).default(5).describe('How long the answer may take.'),
        passes: countOption(1, 100)
          .default(2)
          .describe('An ill origin counts as well after this many passes in a row.'),
      })
      .optional()
      .describe('Active checks of every origin. Without them only requests show whether an origin is well.'),
  })
  .prefault({})
  .describe(
    'When an origin gets no requests. An origin without alternatives always gets them. Where none is well, the one that has rested longest gets them.',
  );

const retries = z
  .strictObject({
    attempts: countOption(0, 10)
      .default(2)
      .describe(
        'How often a request is sent again, to another origin if there is one. Where no response arrived: requests with an idempotent method, and all requests that were not sent or not processed; with a body if no more than 64 KiB of it were sent. After 502, 503 or 504, where there is another origin: GET and HEAD.',
      ),
    budgetPercent: countOption(0, 100)
      .default(20)
      .describe('Retries may be at most this many percent of the requests of the last ten seconds, plus ten.'),
  })
  .prefault({})
  .describe('Sending requests again (RFC 9110 §9.2.2).');

/** Parameters of signatures in URLs, and of other credentials there. */
const credentialParameter = /^(?:x-(?:amz|goog)-.*|awsaccesskeyid|googleaccessid|signature|expires)$/i;

const scopePart = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected small letters, digits and hyphens, such as "eu-central-1"');

const signing = z
  .strictObject({
    type: z
      .literal('sigv4', { error: 'expected "sigv4"' })
      .describe('How requests are signed: AWS Signature Version 4.'),
    region: scopePart.describe('The region of the bucket, such as "eu-central-1"; "auto" for Cloudflare R2.'),
    service: scopePart.default('s3').describe('The service that is named in signatures.'),
    accessKeyId: secretSource.describe('The name of the key: "env:NAME" or "file:PATH".'),
    secretAccessKey: secretSource.describe('The key: "env:NAME" or "file:PATH".'),
    sessionToken: secretSource
      .optional()
      .describe('The token of a temporary key: "env:NAME" or "file:PATH". Read anew at a reload, as the key is.'),
    parameters: distinctNames(
      z
        .string()
        .regex(/^[A-Za-z0-9._~-]{1,100}$/, 'expected the exact name of a query parameter such as "versionId"')
        .refine((name) => !credentialParameter.test(name), 'carries credentials, which are not passed on'),
      20,
    )
      .default([])
      .describe(
        'The query parameters of clients that the origin gets; others are left out. With a signature a bucket also obeys parameters that list it, or that change the type of a response.',
      ),
  })
  .optional()
  .describe(
    'Signs GET and HEAD requests, for a private bucket of S3 or of a service with its interface; other methods are sent without a signature. Credentials, x-amz-* and x-goog-* fields of clients are not passed on. Each client of the route can read what the key can read.',
  );

const originOptions = z.strictObject({
  url: originUrl.describe(
    'Where the origin is, such as "http://127.0.0.1:3000", or "unix:/run/app.sock"; a path in the URL is put before the path of every request.',
  ),
  alternatives: distinctNames(originUrl, 100)
    .default([])
    .describe('More origins that serve the same, with the same path in their URLs.'),
  choice: z
    .enum(['first', 'spread'])
    .default('first')
    .describe(
      'Which of several origins gets a request: "first": the first that is well; "spread": the one with the fewest requests under way. Parts of a representation are requested from the origin that it came from.',
    ),
  protocol: z
    .enum(['http1', 'http2'])
    .default('http1')
    .describe('"http2" speaks HTTP/2 with origins over TLS that have it (ALPN).'),
  host: hostChoice
    .default('auto')
    .describe(
      'The Host that the origin sees: "keep", the one that the client sent; "origin", the name in "url"; or a host name. "auto" is "keep" where every URL has an address, localhost or a Unix socket, which no other name leads to, and requests are not signed; otherwise "origin".',
    ),
  connectTimeoutSeconds: secondsOption(0.01, 600).default(10).describe('How long making a connection may take.'),
  headersTimeoutSeconds: secondsOption(0.01, 86_400)
    .default(60)
    .describe('How long the origin may take, after a request, to send the head of its response.'),
  bodyTimeoutSeconds: secondsOption(0.01, 86_400)
    .default(60)
    .describe('How long the origin may pause within the body of a response.'),
  connections: countOption(1, 65_535)
    .optional()
    .describe(
      'The most connections to one origin at a time, and never more than an eighth of the file descriptors of a process, which is the default. Over HTTP/2 each carries up to 100 requests; connections that the origin is closing are not counted, up to as many again. "limits.fills" and "unansweredRequests" protect a weak origin: they do not count the responses that clients listen to.',
    ),
  connectionsPerClient: countOption(1, 65_535)
    .optional()
    .describe(
      'The most of these connections that serve requests of one client at a time. Further requests of that client wait, and those of other clients go first. Without it: a quarter of "connections", and more while a quarter of all is free.',
    ),
  unansweredRequests: countOption(0, 65_535)
    .default(0)
    .describe(
      'The most requests to one origin that wait for the head of their response at a time; further ones wait. A response whose head has come does not count, however long it takes. 0 sets no limit.',
    ),
  waitSeconds: secondsOption(0.01, 600)
    .default(10)
    .describe(
      'How long a request waits where a limit on connections or on unanswered requests is reached. Then it gets 503 with Retry-After, and the log says what holds the places.',
    ),
  keepAliveTimeoutSeconds: secondsOption(0.01, 3600)
    .default(4)
    .describe('How long an idle connection is kept for the next request. Should be less than the origin keeps it.'),
  caFile: z
    .string()
    .min(1)
    .optional()
    .describe('A file of PEM certificates to trust for this origin in place of the usual ones. Relative to this file.'),
  certFile: z
    .string()
    .min(1)
    .optional()
    .describe('A PEM file with the client certificate for the origin. Relative to this file.'),
  keyFile: z.string().min(1).optional().describe('The PEM file of its private key. Relative to this file.'),
  insecureTls: z
    .boolean()
    .default(false)
    .describe('Accepts any certificate from the origin. An attacker in between can then read and change everything.'),
  ranges: z
    .enum(['auto', 'never', 'always'])
    .default('auto')
    .describe(
      'Whether the origin is asked for parts of a representation: "auto" finds out whether it supports ranges, "never" asks for the whole, "always" keeps asking for parts whatever it answered before.',
    ),
  seekAheadBytes: size({ min: '0B', max: '1TB' })
    .prefault(2_097_152)
    .describe(
      'A client that reads further ahead than this gets a transfer of its own, where the origin supports ranges and the speed of the running transfer is not known yet. Once it is known, a client waits for a transfer that will reach it within half a second.',
    ),
  closeDelimited: z
    .enum(['relay', 'store'])
    .default('store')
    .describe(
      'How a response is handled that has neither Content-Length nor chunks and ends where the origin closes the connection: "store" stores it and answers ranges from it where the connection was closed in order (over TLS: with close_notify), and breaks it off where it was reset; "relay" passes it on without storing it, and over TLS accepts any end as the end.',
    ),
  retries,
  health,
  signing,
});

/** The options that the checks below compare. */
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

const forTlsOnly = 'applies to an https:// origin only';

const origin = originOptions
  .superRefine(
    (value, context) => {
      const complain: Complain = (path, message) => context.addIssue({ code: 'custom', path: [...path], message });
      compareAlternatives(value, complain);
      compareTls(value, complain);
    },
    { when: ({ value }) => comparedOptions.safeParse(value).success },
  )
  .transform(withHostChosen);

function compareAlternatives({ url, alternatives, health: { check } }: OriginOptions, complain: Complain): void {
  for (const [index, each] of alternatives.entries()) {
    if (each === url) complain(['alternatives', index], 'is the same as url');
    else if (pathOf(each) !== pathOf(url)) complain(['alternatives', index], 'must have the same path as url');
  }
  if (alternatives.length > 0 || check === undefined) return;
  complain(['health', 'check'], 'applies with alternatives only: a lone origin is always asked');
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

/** Returns the path that is put before the path of every request; a Unix socket has none. */
function pathOf(url: string): string {
  return url.startsWith('unix:') ? '' : new URL(url).pathname.replace(/\/$/, '');
}

/**
 * Returns what "auto" means for an origin: the client's Host where all its URLs have an address, a loopback name (RFC 6761 §6.3) or
 * a Unix socket, so that nothing there knows another name; otherwise its own. A signature is made for the name of the service.
 */
function withHostChosen<T extends Pick<OriginOptions, 'url' | 'alternatives' | 'host' | 'signing'>>(value: T): T {
  if (value.host !== 'auto') return value;
  const isNameless = [value.url, ...value.alternatives].every(isNamelessOrigin) && value.signing === undefined;
  return { ...value, host: isNameless ? 'keep' : 'origin' };
}

/** The origin of a route: a URL, or a URL with options. */
export const originSchema = z
  .union([originUrl.transform((url) => ({ url })).pipe(origin), origin])
  .describe('Where the responses come from: a URL, or a URL with options.');
