/**
 * The options of the guard of a route: who may pass and how much, CORS and security fields, and the rules that set, add or
 * remove fields.
 */

import * as z from 'zod';
import { addressRange, count, fieldName, fieldText, names, seconds, secretSource, size, token } from './values.ts';

/** Who may pass. */
export const accessSchema = z
  .strictObject({
    allow: z
      .array(addressRange)
      .min(1)
      .max(10_000)
      .optional()
      .describe(
        'Only clients with these addresses, or in these blocks, may pass; others get 403, and so do those whose address nobody tells. Without it: all.',
      ),
    deny: z
      .array(addressRange)
      .max(10_000)
      .default([])
      .describe('Clients with these addresses, or in these blocks, get 403, whatever "allow" says.'),
    realm: z
      .string()
      .regex(/^[\x20-\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'expected visible ASCII without quotes and backslashes')
      .default('Rangeway')
      .describe('What clients are told of that they are asked credentials for (RFC 9110 §11.5).'),
    basic: secretSource
      .optional()
      .describe(
        'Lets those pass who give a name and its password (RFC 7617): "file:PATH" or "env:NAME" of lines "name:hash", as "rangeway hash-password" makes them.',
      ),
    bearer: secretSource
      .optional()
      .describe(
        'Lets those pass who give a token (RFC 6750): "file:PATH" or "env:NAME" of lines "name:token", each token of 16 characters or more.',
      ),
    apiKey: secretSource
      .optional()
      .describe(
        'Lets those pass who give a key in X-API-Key: "file:PATH" or "env:NAME" of lines "name:key", each key of 16 characters or more.',
      ),
    signedUrls: secretSource
      .optional()
      .describe(
        'Lets those pass, with GET and HEAD, whose URL is signed and has not expired: "file:PATH" or "env:NAME" of lines "id:secret", each secret of 16 characters or more. "rangeway sign" signs one.',
      ),
    forwardCredentials: z
      .boolean()
      .default(false)
      .describe(
        'Whether the origin gets the credentials that were asked for here. Then responses are stored only where the origin allows that for Authorization (RFC 9111 §3.5), never for X-API-Key, and for each signed URL by itself.',
      ),
  })
  .superRefine(({ forwardCredentials, basic, bearer, apiKey, signedUrls }, context) => {
    const isOpen = [basic, bearer, apiKey, signedUrls].every((source) => source === undefined);
    if (!forwardCredentials || !isOpen) return;
    context.addIssue({ code: 'custom', path: ['forwardCredentials'], message: 'no credentials are asked for here' });
  })
  .prefault({})
  .describe(
    'Who may pass. Of the kinds of credentials that are listed a client has to give one. Secrets are read once, at the start.',
  );

/** Scheme and authority as browsers write them (RFC 6454 §6.2): those of apps too, which have schemes of their own. */
const webOrigin = z
  .string()
  .regex(/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._~-]+|\[[0-9a-f:]+\])(?::\d{1,5})?)$/, {
    error: 'expected an origin such as "https://app.example.org", in lower case and without a path, or "*"',
    abort: true,
  })
  .refine(
    (origin) => !/^(?:http:.*:80|https:.*:443)$/.test(origin),
    'browsers leave this port out, and so it never fits',
  );

/** Pages of other origins. */
export const corsSchema = z
  .strictObject({
    origins: z
      .array(webOrigin)
      .min(1)
      .max(1000)
      .describe('The origins whose pages may read responses, such as "https://app.example.org"; "*" is for all.'),
    credentials: z
      .boolean()
      .default(false)
      .describe('Whether they may send cookies and credentials of the user. Not with "*" or "null".'),
    methods: names(token, 20).prefault(['GET', 'HEAD']).describe('The methods that they may use.'),
    requestFields: names(fieldName('Authorization'), 100)
      .default([])
      .describe(
        'The fields that they may set, besides Range, If-Range and the other conditions, which they always may.',
      ),
    exposeFields: names(fieldName('X-Request-Id'), 100)
      .default([])
      .describe(
        'The response fields that they may read, besides Accept-Ranges, Content-Range, Content-Length, Content-Encoding, ETag and Age, which they always may.',
      ),
    maxAgeSeconds: seconds(0, 86_400)
      .default(7200)
      .describe('How long a browser may remember what it was told about this.'),
  })
  .superRefine(({ origins, credentials }, context) => {
    if (!credentials) return;
    const complain = (message: string) => context.addIssue({ code: 'custom', path: ['credentials'], message });
    if (origins.includes('*')) complain('cannot be true for all origins ("*")');
    if (origins.includes('null')) complain('cannot be true for "null", which every page can be');
  })
  .optional()
  .describe(
    "Lets pages of other origins read responses (CORS), ranges too. Preflight requests are answered here, and what the origin says of this is replaced; GET and HEAD come to the origin without Origin, so that what is stored is for all pages. Without it all of this is the origin's.",
  );

/** Fields that tell browsers to be careful. */
export const securitySchema = z
  .strictObject({
    strictTransportSecurity: fieldText
      .optional()
      .describe('Strict-Transport-Security, such as "max-age=63072000"; sent over TLS only (RFC 6797 §7.2).'),
    contentTypeOptions: z.boolean().default(false).describe('Sends X-Content-Type-Options: nosniff.'),
    frameOptions: z.enum(['DENY', 'SAMEORIGIN']).optional().describe('X-Frame-Options.'),
    contentSecurityPolicy: fieldText.optional().describe('Content-Security-Policy, such as "default-src \'self\'".'),
    referrerPolicy: fieldText.optional().describe('Referrer-Policy, such as "strict-origin-when-cross-origin".'),
  })
  .prefault({})
  .describe("Fields that tell browsers to be careful, in place of the origin's.");

/** How much a client gets. */
export const routeLimitsSchema = z
  .strictObject({
    bodyBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('The largest body of a request; a larger one gets 413. Without it: any.'),
    requestsPerClient: count(0, 1_000_000)
      .default(0)
      .describe('The most requests of one client at a time; more get 429. 0 sets no limit.'),
    tunnelsPerClient: count(0, 1_000_000)
      .default(256)
      .describe('The most tunnels (WebSocket) of one client at a time; more get 429. 0 sets no limit.'),
    tunnelIdleTimeoutSeconds: seconds(0, 604_800)
      .default(3600)
      .describe('How long nothing may come through a tunnel, either way, before it is closed; 0 sets no limit.'),
    rate: z
      .strictObject({
        requests: count(1, 1_000_000).describe('How many requests a client may make…'),
        seconds: count(1, 86_400).describe('… in so many seconds.'),
        burst: count(1, 1_000_000).optional().describe('How many of them at once. Without it: all.'),
      })
      .optional()
      .describe(
        'How many requests one client may make; more get 429 with Retry-After. Addresses of IPv6 count by their first 64 bits.',
      ),
    fills: count(0, 1_000_000)
      .default(0)
      .describe(
        'The most exchanges with the origin at a time, of all clients together; requests that need one more get 503. 0 sets no limit.',
      ),
    fillsPerClient: count(0, 1_000_000)
      .default(0)
      .describe(
        'The most exchanges with the origin that one client may cause at a time; more get 429. 0 sets no limit.',
      ),
    amplification: z
      .strictObject({
        factor: count(0, 1_000_000)
          .default(100)
          .describe('How many bytes may come from the origin for each byte that is delivered. 0 sets no limit.'),
        freeBytes: size({ min: '1MB', max: '1000TB' })
          .prefault('5GB')
          .describe(
            'How many bytes may come besides for one client. When half of it is used up, transfers of that client stop that no client reads; when all of it is, no new one begins.',
          ),
        windowSeconds: seconds(1, 86_400).default(900).describe('In how many seconds all of freeBytes is given back.'),
      })
      .prefault({})
      .describe(
        'Bytes that come from the origin for a client, against bytes that this client gets. A client beyond the limit gets what is stored, and 429 for what is not. What it is being sent goes on.',
      ),
  })
  .prefault({})
  .describe('How much a client gets.');

/** Why some fields are not for rules, whatever the direction. */
const governed: readonly (readonly [reason: string, names: string])[] = [
  [
    'belongs to the connection: it is no matter of rules',
    'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade',
  ],
  ['is how loops are found: it is no matter of rules', 'cdn-loop via'],
];

const governedToOrigin: typeof governed = [
  ...governed,
  ['is chosen by "origin.host"', 'host'],
  [
    'is how the origin is asked for parts, and whether something has changed: it is no matter of rules',
    'if-match if-modified-since if-none-match if-range if-unmodified-since range',
  ],
  ['belongs to the body that a client sends: it is no matter of rules', 'content-encoding content-range expect'],
];

const governedToClient: typeof governed = [
  ...governed,
  ['belongs to what is selected of a representation: it is no matter of rules', 'accept-ranges content-range'],
  ['tells how the bytes are to be read, in parts too: it is no matter of rules', 'content-encoding content-type'],
  ['tells how old a response is: it is no matter of rules', 'age date'],
  ['is how credentials are asked for, with 401: it is no matter of rules', 'proxy-authenticate www-authenticate'],
];

/** They may be removed: clients then do without. */
const removable: typeof governed = [
  ['names one version of the bytes: it can be removed only', 'etag last-modified content-digest repr-digest'],
];

/** It may be added to: caches after this one then tell more variants apart. */
const extensible: typeof governed = [
  ['keeps caches after this one from giving one variant to all: it can be added to only', 'vary'],
];

const toOriginName = ruleName(governedToOrigin, 'Cookie');
const toClientNames = {
  remove: ruleName([...governedToClient, ...extensible], 'Server'),
  set: ruleName([...governedToClient, ...removable, ...extensible], 'X-Served-By'),
  add: ruleName([...governedToClient, ...removable], 'X-Served-By'),
};

/** The name of a field, in lower case, that a rule may be about. */
function ruleName(reasons: typeof governed, example: string) {
  const reasonOf = new Map(reasons.flatMap(([reason, text]) => text.split(' ').map((name) => [name, reason] as const)));
  return fieldName(example).refine((name) => !reasonOf.has(name), {
    error: ({ input }) => `"${String(input)}" ${reasonOf.get(String(input)) ?? ''}`,
  });
}

type RuleName = ReturnType<typeof ruleName>;

function rules(side: string, name: { readonly remove: RuleName; readonly set: RuleName; readonly add: RuleName }) {
  return {
    remove: names(name.remove, 100).default([]).describe(`Fields that are taken out of what goes to the ${side}.`),
    set: z
      .record(name.set, fieldText)
      .default({})
      .describe(`Fields that go to the ${side} with these values, in place of those that are there.`),
    add: z
      .record(name.add, fieldText)
      .default({})
      .describe(`Fields that go to the ${side} with these values, besides those that are there.`),
  };
}

const setSecret = z
  .record(toOriginName, secretSource)
  .prefault({})
  .describe('Fields that go to the origin with a secret for value: "env:NAME" or "file:PATH".');

/** Rules for fields. */
export const fieldRulesSchema = z
  .strictObject({
    toOrigin: z
      .strictObject({
        ...rules('origin', { remove: toOriginName, set: toOriginName, add: toOriginName }),
        setSecret,
      })
      .superRefine((given, context) => {
        for (const name of Object.keys(given.setSecret)) {
          const other = (['set', 'add'] as const).find((option) => name in given[option]);
          if (other === undefined) continue;
          context.addIssue({ code: 'custom', path: ['setSecret', name], message: `is a name of "${other}" too` });
        }
      })
      .prefault({})
      .describe('Rules for requests to the origin. The cache knows nothing of values that are set here.'),
    toClient: z
      .strictObject(rules('client', toClientNames))
      .prefault({})
      .describe(
        'Rules for all responses of the route, errors too. Whatever they say of caching, errors of our own stay "no-store", and responses of a route that asks for credentials "private".',
      ),
  })
  .prefault({})
  .describe('Fields to set, add or remove.');
