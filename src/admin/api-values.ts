/** Schemas of what the admin API takes and returns. Requests are checked by them, and OpenAPI is generated from them. */

import * as z from 'zod';
import type { EntrySearch, LogLevel } from './operations.ts';
import { maxUrls } from './store-operations.ts';

/** Schemas that have a name in OpenAPI, and are defined there once. */
export const namedSchemas = z.registry<{ id: string }>();

const epochMs = z.number().describe('Epoch milliseconds.');

const entryMembers = {
  key: z.string().describe('The key that it is stored under.'),
  uri: z.string().describe('The URI that it is stored for.'),
  scope: z.string().describe('The origin, and everything else that distinguishes the keys of one URI.'),
  variant: z.string().describe('Distinguishes it from other variants of its key; empty where nothing does.'),
  generation: z.string().describe('Identifies this version of the bytes.'),
  status: z.int().describe('The status of the stored response.'),
  contentType: z.string().optional(),
  sizeBytes: z.number().describe('The length of the whole in bytes, however much of it is stored.'),
  presentBytes: z.number().describe('The number of stored bytes.'),
  isComplete: z.boolean().describe('Whether all of its bytes are stored.'),
  isInvalid: z.boolean().describe('Whether it must be validated before its next use, even while it is fresh.'),
  pinnedUntil: epochMs.optional().describe('Until when a replaced generation is kept, in epoch milliseconds.'),
  responseAt: epochMs.describe('When its head was received, in epoch milliseconds.'),
  usedAt: epochMs
    .optional()
    .describe(
      'When it was last used, in epoch milliseconds; absent where no use is known since the server was started.',
    ),
  etag: z.string().optional(),
  lastModified: z.string().optional(),
  tags: z.array(z.string()).describe('Tags and groups that it can be purged by.'),
};

/** One stored representation, in short. */
export const entryStatus = z.object(entryMembers).register(namedSchemas, { id: 'Entry' });

const span = { start: z.number(), end: z.number() };

/** One stored representation, with all details. */
export const entryDetails = z
  .object({
    ...entryMembers,
    fields: z.array(z.tuple([z.string(), z.string()])).describe('Its fields as they are stored: name and value.'),
    nominated: z
      .array(z.tuple([z.string(), z.string().nullable()]))
      .describe('The request fields that select it, as Vary names them: name and value, null for an absent one.'),
    present: z.array(z.object(span)).describe('The stored bytes, as spans: "start" is inclusive, "end" is exclusive.'),
    hot: z.array(z.object(span)).describe('The stored bytes that memory holds, of any worker.'),
    arriving: z
      .array(z.object({ ...span, fillId: z.string().describe('"id" of the fill.') }))
      .describe('The bytes that running fills still have to bring.'),
  })
  .register(namedSchemas, { id: 'EntryDetails' });

/** A page of entries. */
export const entryList = z
  .object({
    entries: z.array(entryStatus),
    next: z
      .string()
      .optional()
      .describe(
        'The value of "after" for the next page; absent on the last one. A page may be short although there is a next one.',
      ),
  })
  .register(namedSchemas, { id: 'EntryList' });

/** Maximum length of a key or a URL, in characters. A key contains a URL, and listeners limit the length of a target. */
export const longestKey = 131_072;

const text = (description: string) => z.string().min(1).max(longestKey).optional().describe(description);

/** The members of an object that select entries. */
export const searchMembers = {
  url: text('All that is stored for this URL; where there is one route, a path alone is enough.'),
  prefix: text('All whose URL begins like this one.'),
  host: text('All of this host, at all ports; with a port, only what is stored for that port.'),
  tag: text('All with this tag of Cache-Tag or Surrogate-Key.'),
  group: text('All of this group of Cache-Groups (RFC 9875), with the "origin" that it belongs to.'),
  origin: text('With "group": scheme and host, such as "https://example.org".'),
};

/** The values of `searchMembers`. */
export type GivenSearch = { readonly [name in keyof typeof searchMembers]?: string | undefined };

const searchKinds = ['url', 'prefix', 'host', 'tag', 'group'] as const;

/** Returns why members do not make one search; undefined where they do, or where there are none. */
export function searchFault(given: GivenSearch): string | undefined {
  const kinds = searchKinds.filter((name) => given[name] !== undefined);
  if (kinds.length > 1) return `${kinds.join(' and ')} exclude each other`;
  if (given.group !== undefined && given.origin === undefined) return 'group needs origin';
  if (given.group === undefined && given.origin !== undefined) return 'origin goes with group';
  return undefined;
}

/** Returns the search that members without a fault make; undefined where there are none. */
export function searchOf({ url, prefix, host, tag, group, origin }: GivenSearch): EntrySearch | undefined {
  if (url !== undefined) return { kind: 'url', url };
  if (prefix !== undefined) return { kind: 'prefix', url: prefix };
  if (host !== undefined) return { kind: 'host', host };
  if (tag !== undefined) return { kind: 'tag', tag };
  if (group !== undefined && origin !== undefined) return { kind: 'group', group, origin };
  return undefined;
}

/** The order to purge. */
export const purgeOrder = z
  .strictObject({
    ...searchMembers,
    all: z.literal(true).optional().describe('Everything.'),
    mode: z
      .enum(['hard', 'soft'])
      .default('hard')
      .describe(
        '"hard" removes; "soft" ends the lifetime: what is stored is validated before it is used again, and may be served stale where the origin fails.',
      ),
  })
  .superRefine((given, context) => {
    const fault = searchFault(given) ?? purgeFault(given);
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
  })
  .register(namedSchemas, { id: 'PurgeOrder' });

function purgeFault({ all, ...given }: GivenSearch & { readonly all?: true | undefined }): string | undefined {
  const search = searchOf(given);
  if (search === undefined && all === undefined) return 'say what: url, prefix, host, tag, group with origin, or all';
  return search !== undefined && all !== undefined ? '"all" goes with no other choice' : undefined;
}

/** The result of a purge. */
export const purgeReport = z
  .object({
    entries: z
      .int()
      .describe(
        'How many entries were removed or expired; of a hard purge by prefix, host, tag or group: how many keys, with all their variants.',
      ),
  })
  .register(namedSchemas, { id: 'PurgeReport' });

/** The order to warm. */
export const warmOrder = z
  .strictObject({
    urls: z
      .array(z.string().min(1).max(longestKey))
      .min(1)
      .max(maxUrls)
      .describe('URLs as clients ask for them; where there is one route, without hosts, paths alone are enough.'),
    fields: z
      .array(z.tuple([z.string(), z.string()]))
      .max(50)
      .optional()
      .describe('Fields of the requests, such as ["Accept-Encoding", "br"], where responses vary by them.'),
  })
  .register(namedSchemas, { id: 'WarmOrder' });

/** The outcome for each URL. */
export const warmReports = z
  .object({
    results: z.array(
      z.object({
        url: z.string(),
        status: z.int().describe('The status that a client would have got; 0 where there is none.'),
        cacheStatus: z.string().optional().describe('The Cache-Status of the response (RFC 9211).'),
        bytes: z.number().describe('How many bytes were read.'),
        error: z.string().optional().describe('Why it could not be fetched.'),
      }),
    ),
  })
  .register(namedSchemas, { id: 'WarmReports' });

/** The order to explain a request. */
export const explainOrder = z
  .strictObject({
    url: z
      .string()
      .min(1)
      .max(longestKey)
      .describe('The URL as clients ask for it; a path alone where there is one route, without hosts.'),
    method: z.string().min(1).max(64).default('GET').describe('The method of the request.'),
    fields: z
      .array(z.tuple([z.string(), z.string()]))
      .max(100)
      .optional()
      .describe('Fields of the request, such as ["Range", "bytes=0-99"]; Host replaces the authority of the URL.'),
    client: z.string().max(64).optional().describe('The address of the client that would ask. Without it: 127.0.0.1.'),
  })
  .register(namedSchemas, { id: 'ExplainOrder' });

const anything = z.looseObject({});

/** How a request would be answered. */
export const explainReply = z
  .discriminatedUnion('kind', [
    z.object({
      kind: z.literal('explained'),
      explanation: z
        .looseObject({
          version: z.literal(1).describe('The version of the format of the explanation.'),
          at: epochMs,
          method: z.string(),
          uri: z.string().describe('The target URI of the request.'),
          route: z.string().describe('The route that serves it.'),
          key: z.string().describe('The key that a response is stored under.'),
          decision: z
            .looseObject({
              kind: z
                .string()
                .describe('hit, stale, stale-while-revalidate, complete, join, revalidate, fill, pass or refuse.'),
              reason: z.string(),
            })
            .describe('What the cache would do, and why.'),
          variant: z
            .array(z.tuple([z.string(), z.string().nullable()]))
            .describe('The request fields that select a variant, with their values; null for an absent one.'),
          entries: z.array(anything).describe('What is stored under the key, in short.'),
          flights: z.array(anything).describe('The running exchanges with the origin.'),
          prefetch: z
            .array(z.string())
            .optional()
            .describe(
              'The next segments of its playlist, which the request would have fetched; absent where there are none.',
            ),
          plan: anything.describe('The response: its status, and where the bytes of its body would come from.'),
        })
        .describe('Further members may be present.'),
    }),
    z.object({
      kind: z.literal('answered'),
      status: z
        .int()
        .describe('The status of the response that Rangeway would give without the cache, such as 404 or 401.'),
      detail: z.string(),
    }),
  ])
  .register(namedSchemas, { id: 'Explained' });

const fillStatus = z
  .object({
    id: z.string().describe('Identifies it among the fills of all workers.'),
    key: z.string(),
    uri: z.string(),
    generation: z.string(),
    worker: z.int().describe('The worker that it runs in.'),
    sizeBytes: z.number().optional().describe('The length of the whole in bytes; absent where it is not known.'),
    receivedBytes: z.number(),
    readers: z.int().describe('How many clients read it now.'),
    startedAt: epochMs.describe('When it began, in epoch milliseconds.'),
  })
  .register(namedSchemas, { id: 'Fill' });

/** Running transfers from origins. */
export const fillList = z.object({ fills: z.array(fillStatus) }).register(namedSchemas, { id: 'FillList' });

const originStatus = z
  .object({
    route: z.string(),
    url: z.string(),
    worker: z.int().describe('The worker that reports it.'),
    health: z
      .enum(['well', 'ill', 'resting'])
      .describe('"resting": gets no requests for a while. "ill": has rested; the next request or check decides.'),
    ranges: z.enum(['unknown', 'yes', 'no']).describe('Whether it sends ranges, as far as the worker knows.'),
    requests: z
      .object({
        streams: z.number().describe('Responses that are passed on while they arrive.'),
        fills: z.number().describe('Responses that are taken into the store.'),
        unanswered: z.number().describe('Requests that have no response yet.'),
        waiting: z.number().describe('Requests that wait for a connection.'),
      })
      .describe('The requests under way to it, by what they are.'),
  })
  .register(namedSchemas, { id: 'Origin' });

/** What happened to the last requests. */
export const decisionList = z
  .object({
    decisions: z
      .array(
        z.union([
          z.object({
            at: epochMs.describe('When it ended, in epoch milliseconds.'),
            worker: z.int().describe('The worker that answered it.'),
            method: z.string(),
            uri: z.string().describe('Its URI, with secrets redacted.'),
            range: z.string().optional().describe('Its Range field.'),
            status: z.int(),
            outcome: z
              .string()
              .describe('hit, stale, revalidated, miss, uncacheable, or none: the cache was not asked.'),
            reason: z.string().optional().describe('Why it was no hit.'),
            collapsed: z.boolean().describe('Whether it waited for a transfer that another request had started.'),
            originBytes: z.number().describe('Bytes that the origin sent because of it.'),
            sentBytes: z.number(),
            headMs: z.number().describe('Milliseconds to the head of the response.'),
            durationMs: z.number(),
            apartBy: z
              .array(z.string())
              .optional()
              .describe(
                'In which fields and cookies it differs from a stored response that is for equal requests only.',
              ),
            error: z.string().optional(),
            traceId: z.string().optional(),
          }),
          z.object({
            at: epochMs,
            worker: z.int(),
            event: z
              .enum(['filled', 'purged', 'expired', 'evicted'])
              .describe('What happened to the entries of the key.'),
            detail: z.string(),
          }),
        ]),
      )
      .describe('The newest first.'),
  })
  .register(namedSchemas, { id: 'DecisionList' });

/** Origins, and what workers know of them. */
export const originList = z.object({ origins: z.array(originStatus) }).register(namedSchemas, { id: 'OriginList' });

/** The active configuration. */
export const runningConfig = z
  .record(z.string(), z.unknown())
  .describe('As in a configuration file, with every default filled in and everything left out that may be secret.')
  .register(namedSchemas, { id: 'Config' });

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const satisfies readonly LogLevel[];

/** The level of the log. */
export const logSetting = z
  .strictObject({ level: z.enum(levels).describe('Minimum level that is logged.') })
  .register(namedSchemas, { id: 'Log' });

/** An empty object. */
export const nothing = z.strictObject({});

/** Whether the server is ready, for any client. */
export const readinessSummary = z
  .object({
    isReady: z.boolean(),
    reason: z.string().optional().describe('Why it is not ready.'),
    serving: z.int().describe('How many processes serve.'),
  })
  .register(namedSchemas, { id: 'Readiness' });

const workerStatus = z
  .object({
    id: z.int(),
    pid: z.int(),
    state: z.string().describe('"serving", "starting", "stopping", "silent" (no answers) or "away" (no process).'),
  })
  .register(namedSchemas, { id: 'Worker' });

const requestTotals = z.object({
  hit: z.number(),
  stale: z.number(),
  revalidated: z.number(),
  miss: z.number(),
  uncacheable: z.number(),
  none: z.number().describe('The cache was not asked.'),
  failed: z.number().describe('Answered with a status of 500 or more; no other member counts these.'),
  inFlight: z.number().describe('Requests that have not ended.'),
});

/** What a server does now. */
export const activity = z
  .object({
    at: epochMs.describe('When this was read, in epoch milliseconds.'),
    startedAt: epochMs.describe('When the server started, in epoch milliseconds.'),
    isReady: z.boolean(),
    workers: z.array(workerStatus),
    requests: requestTotals.describe('Requests that have ended, since the start, by outcome.'),
    bytes: z
      .object({ sent: z.number(), fromOrigin: z.number() })
      .describe('Bytes of bodies since the start, of requests and exchanges with origins that have ended.'),
    latency: z
      .object({ boundsMs: z.array(z.number()), counts: z.array(z.number()) })
      .describe(
        'Requests since the start by the time to the head of their response: those within each bound but not within the bound before, and last those beyond all bounds.',
      ),
    connectionsOpen: z.number().describe('Connections of clients.'),
    store: z.object({
      entries: z.number(),
      memoryBytes: z.number(),
      memoryLimitBytes: z.number(),
      diskBytes: z
        .number()
        .nullable()
        .describe('Null for a store in memory. Of Redis or Valkey if the store is there.'),
      diskLimitBytes: z
        .number()
        .nullable()
        .describe('Null for a store in memory. Of Redis or Valkey if the store is there, 0 without `maxmemory`.'),
      isShared: z
        .boolean()
        .describe(
          'Whether the store is in Redis or Valkey, which other machines may share. `entries`, `diskBytes` and `diskLimitBytes` are those of all machines then, and all other figures are of this machine only.',
        ),
    }),
    origins: z.array(originStatus),
    fills: z.array(fillStatus).describe('At most 1000, the longest-running first.'),
    fillCount: z.int().describe('How many fills run.'),
    hottest: z
      .array(
        z.object({
          uri: z.string().describe('Without secrets.'),
          hits: z.number().describe('Requests for it.'),
          bytes: z.number().describe('Bytes of body that were sent for it.'),
        }),
      )
      .describe(
        'The most requested URIs of about the last minute, at most 20; counted only while the activity is read.',
      ),
  })
  .register(namedSchemas, { id: 'Activity' });

/** What a browser logs in with. */
export const loginOrder = z
  .strictObject({
    token: z.string().min(1).max(4096).optional().describe('The token of the admin listener.'),
    code: z.string().min(1).max(128).optional().describe('A one-time code of "rangeway dashboard".'),
  })
  .refine(({ token, code }) => (token === undefined) !== (code === undefined), 'expected "token" or "code"')
  .register(namedSchemas, { id: 'Login' });

/** Whether a browser is logged in. */
export const sessionStatus = z
  .object({
    loggedIn: z.boolean().describe('Whether the request has a session.'),
    hasToken: z.boolean().describe('Whether there is a token to log in with.'),
  })
  .register(namedSchemas, { id: 'Session' });

/** A one-time code. */
export const sessionCode = z
  .object({
    code: z.string().describe('Logs in once: for "code" of POST /api/v1/session.'),
    expiresAt: epochMs.describe('Until when, in epoch milliseconds.'),
    url: z
      .string()
      .optional()
      .describe('Where browsers find the dashboard; absent where the admin listener has no port.'),
  })
  .register(namedSchemas, { id: 'SessionCode' });

/** The state of the server, for operators. */
export const serverStatus = z
  .object({
    isReady: z.boolean(),
    reason: z.string().optional(),
    workers: z.array(workerStatus),
    addresses: z.array(z.string()).describe('The addresses that clients connect to.'),
  })
  .register(namedSchemas, { id: 'Status' });

/** A problem (RFC 9457). */
export const problem = z
  .object({ title: z.string(), status: z.int(), detail: z.string().describe('A sentence for people.') })
  .register(namedSchemas, { id: 'Problem' });
