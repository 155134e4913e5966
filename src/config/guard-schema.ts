/**
 * The options of a route's guard: access, limits, CORS and security fields, and the rules that set, add or remove fields.
 */

import * as z from 'zod';
import {
  addressRange,
  countOption,
  distinctNames,
  fieldName,
  fieldText,
  secondsOption,
  secretSource,
  size,
  token,
} from './values.ts';

/** Which clients may use the route. */
export const accessSchema = z
  .strictObject({
    allow: z
      .array(addressRange)
      .min(1)
      .max(10_000)
      .optional()
      .describe(
        'Only clients with these addresses, or in these blocks, may use the route; others get 403, also those whose address is unknown. Without it: all clients.',
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
      .describe('The protection space that is named to clients when credentials are asked for (RFC 9110 §11.5).'),
    basic: secretSource
      .optional()
      .describe(
        'Admits clients that send a name and its password (RFC 7617): "file:PATH" or "env:NAME" of lines "name:hash", as "rangeway hash-password" prints them.',
      ),
    bearer: secretSource
      .optional()
      .describe(
        'Admits clients that send a token (RFC 6750): "file:PATH" or "env:NAME" of lines "name:token", each token of 16 characters or more.',
      ),
    apiKey: secretSource
      .optional()
      .describe(
        'Admits clients that send a key in X-API-Key: "file:PATH" or "env:NAME" of lines "name:key", each key of 16 characters or more.',
      ),
    signedUrls: secretSource
      .optional()
      .describe(
        'Admits GET and HEAD requests whose URL is signed and has not expired: "file:PATH" or "env:NAME" of lines "id:secret", each secret of 16 characters or more. "rangeway sign" signs a URL.',
      ),
    forwardCredentials: z
      .boolean()
      .default(false)
      .describe(
        'Whether the origin gets the credentials that are checked here. If so, responses to requests with Authorization are stored only where the origin allows it (RFC 9111 §3.5), those to requests with X-API-Key never, and those of each signed URL separately.',
      ),
  })
  .superRefine(({ forwardCredentials, basic, bearer, apiKey, signedUrls }, context) => {
    const isOpen = [basic, bearer, apiKey, signedUrls].every((source) => source === undefined);
    if (!forwardCredentials || !isOpen) return;
    context.addIssue({ code: 'custom', path: ['forwardCredentials'], message: 'no credentials are asked for here' });
  })
  .prefault({})
  .describe(
    'Which clients may use the route. Where kinds of credentials are listed, a client has to send one of them. Secrets are read at the start and at a reload.',
  );

/** Scheme and authority as browsers write them (RFC 6454 §6.2). Apps have schemes of their own. */
const webOrigin = z
  .string()
  .regex(/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._~-]+|\[[0-9a-f:]+\])(?::\d{1,5})?)$/, {
    error: 'expected an origin such as "https://app.example.org", in lower case and without a path, or "*"',
    abort: true,
  })
  .refine(
    (origin) => !/^(?:http:.*:80|https:.*:443)$/.test(origin),
    'browsers leave this port out, so it never matches',
  );

/** CORS. */
export const corsSchema = z
  .strictObject({
    origins: z
      .array(webOrigin)
      .min(1)
      .max(1000)
      .describe('The origins whose pages may read responses, such as "https://app.example.org"; "*" stands for all.'),
    credentials: z
      .boolean()
      .default(false)
      .describe('Whether these pages may send cookies and credentials of the user. Not with "*" or "null".'),
    methods: distinctNames(token, 20).prefault(['GET', 'HEAD']).describe('The methods that these pages may use.'),
    requestFields: distinctNames(fieldName('Authorization'), 100)
      .default([])
      .describe(
        'The request fields that these pages may set, besides Range, If-Range and the other conditions, which are always allowed.',
      ),
    exposeFields: distinctNames(fieldName('X-Request-Id'), 100)
      .default([])
      .describe(
        'The response fields that these pages may read, besides Accept-Ranges, Content-Range, Content-Length, Content-Encoding, ETag and Age, which are always allowed.',
      ),
    maxAgeSeconds: secondsOption(0, 86_400)
      .default(7200)
      .describe('How long a browser may cache the answer to a preflight request.'),
  })
  .superRefine(({ origins, credentials }, context) => {
    if (!credentials) return;
    const complain = (message: string) => context.addIssue({ code: 'custom', path: ['credentials'], message });
    if (origins.includes('*')) complain('cannot be true for all origins ("*")');
    if (origins.includes('null')) complain('cannot be true for "null", which every page can be');
  })
  .optional()
  .describe(
    'Lets pages of other origins read responses (CORS), ranges too. Preflight requests are answered here, and CORS fields of the origin are replaced. GET and HEAD are sent to the origin without Origin, so that stored responses serve all pages. Without it CORS is left to the origin.',
  );

/** Security fields for browsers. */
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
  .describe("Security fields for browsers, in place of the origin's.");

/** Limits of a route. */
export const routeLimitsSchema = z
  .strictObject({
    bodyBytes: size({ min: '0B', max: '1000TB' })
      .optional()
      .describe('The largest body of a request; a larger one gets 413. Without it: any.'),
    requestsPerClient: countOption(0, 1_000_000)
      .optional()
      .describe(
        'The most requests of one client at a time; more get 429. 0 sets no limit. Without it: 4096, without stored responses that are sent at once, and without tunnels.',
      ),
    tunnelsPerClient: countOption(0, 1_000_000)
      .optional()
      .describe(
        'The most tunnels (WebSocket) of one client at a time; more get 429. 0 sets no limit. Without it: a quarter of what "origin.connections" is by default.',
      ),
    tunnelIdleTimeoutSeconds: secondsOption(0, 604_800)
      .default(3600)
      .describe('How long nothing may come through a tunnel, either way, before it is closed; 0 sets no limit.'),
    rate: z
      .strictObject({
        requests: countOption(1, 1_000_000).describe('How many requests one client may make within "seconds".'),
        seconds: countOption(1, 86_400).describe('The period for "requests".'),
        burst: countOption(1, 1_000_000).optional().describe('How many of them may be made at once. Without it: all.'),
      })
      .optional()
      .describe(
        'How many requests one client may make; more get 429 with Retry-After. IPv6 addresses count by their first 64 bits.',
      ),
    fills: countOption(0, 1_000_000)
      .default(0)
      .describe(
        'The most exchanges with the origin at a time, of all clients together; requests that need one more get 503. 0 sets no limit.',
      ),
    fillsPerClient: countOption(0, 1_000_000)
      .default(0)
      .describe(
        'The most exchanges with the origin that one client may cause at a time; more get 429. 0 sets no limit.',
      ),
    amplification: z
      .strictObject({
        factor: countOption(0, 1_000_000)
          .default(100)
          .describe('How many bytes may come from the origin for each byte that is delivered. 0 sets no limit.'),
        freeBytes: size({ min: '1MB', max: '1000TB' })
          .prefault('5GB')
          .describe(
            'How many more bytes may come for one client. When half of them are used up, transfers of that client that no client reads stop; when all are used up, it can start no new transfer.',
          ),
        windowSeconds: secondsOption(1, 86_400)
          .default(900)
          .describe('The time in which all of freeBytes is given back.'),
      })
      .prefault({})
      .describe(
        'Limits the bytes that come from the origin for a client, compared with the bytes that this client gets. Beyond the limit a client gets stored responses, and 429 otherwise. Responses under way go on.',
      ),
  })
  .prefault({})
  .describe('Limits of the route, most of them for each client.');

/** Fields that rules cannot change in either direction, and why. */
const governed: readonly (readonly [reason: string, names: string])[] = [
  [
    'belongs to the connection: rules cannot change it',
    'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade',
  ],
  ['is how loops are found: rules cannot change it', 'cdn-loop via'],
];

const governedToOrigin: typeof governed = [
  ...governed,
  ['is chosen by "origin.host"', 'host'],
  [
    'asks the origin for parts, or whether something has changed: rules cannot change it',
    'if-match if-modified-since if-none-match if-range if-unmodified-since range',
  ],
  ['belongs to the body that a client sends: rules cannot change it', 'content-encoding content-range expect'],
];

const governedToClient: typeof governed = [
  ...governed,
  ['belongs to the selected part of a representation: rules cannot change it', 'accept-ranges content-range'],
  ['says how bytes are read, also in parts: rules cannot change it', 'content-encoding content-type'],
  ['states the age of a response: rules cannot change it', 'age date'],
  ['asks for credentials, with 401: rules cannot change it', 'proxy-authenticate www-authenticate'],
];

/** Fields that rules may remove, but neither set nor add. */
const removable: typeof governed = [
  ['names one version of the bytes: it can be removed only', 'etag last-modified content-digest repr-digest'],
];

/** A field that rules may add to, but not set or remove: downstream caches then distinguish more variants. */
const extensible: typeof governed = [
  ['keeps caches after this one from giving one variant to all: it can be added to only', 'vary'],
];

const toOriginName = ruleName(governedToOrigin, 'Cookie');
const toClientNames = {
  remove: ruleName([...governedToClient, ...extensible], 'Server'),
  set: ruleName([...governedToClient, ...removable, ...extensible], 'X-Served-By'),
  add: ruleName([...governedToClient, ...removable], 'X-Served-By'),
};

/** Returns the schema of the name, in lower case, of a field that a rule may change. */
function ruleName(reasons: typeof governed, example: string) {
  const reasonOf = new Map(reasons.flatMap(([reason, text]) => text.split(' ').map((name) => [name, reason] as const)));
  return fieldName(example).refine((name) => !reasonOf.has(name), {
    error: ({ input }) => `"${String(input)}" ${reasonOf.get(String(input)) ?? ''}`,
  });
}

type RuleName = ReturnType<typeof ruleName>;

function rules(side: string, name: { readonly remove: RuleName; readonly set: RuleName; readonly add: RuleName }) {
  return {
    remove: distinctNames(name.remove, 100).default([]).describe(`Fields that are not sent to the ${side}.`),
    set: z
      .record(name.set, fieldText)
      .default({})
      .describe(`Fields that are sent to the ${side} with these values, in place of existing ones.`),
    add: z
      .record(name.add, fieldText)
      .default({})
      .describe(`Fields that are sent to the ${side} with these values, besides existing ones.`),
  };
}

const setSecret = z
  .record(toOriginName, secretSource)
  .prefault({})
  .describe('Fields that are sent to the origin with a secret as value: "env:NAME" or "file:PATH".');

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
      .describe('Rules for requests to the origin. The cache does not see values that are set here.'),
    toClient: z
      .strictObject(rules('client', toClientNames))
      .prefault({})
      .describe(
        'Rules for all responses of the route, errors too. Whatever they set about caching, our own errors stay "no-store", and responses of a route that asks for credentials stay "private".',
      ),
  })
  .prefault({})
  .describe('Fields to set, add or remove.');
