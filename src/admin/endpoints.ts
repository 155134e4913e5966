/** The table of all endpoints of the admin listener. */

import * as z from 'zod';
import { admissionOf, sessionOf } from './access.ts';
import {
  activity,
  decisionList,
  entryDetails,
  entryList,
  explainOrder,
  explainReply,
  fillList,
  loginOrder,
  logSetting,
  longestKey,
  nothing,
  originList,
  purgeOrder,
  purgeReport,
  readinessSummary,
  runningConfig,
  searchFault,
  searchMembers,
  searchOf,
  serverStatus,
  sessionCode,
  sessionStatus,
  warmOrder,
  warmReports,
} from './api-values.ts';
import { defineEndpoint, type Endpoint, type Frozen, jsonType } from './endpoint.ts';
import { logIn, logOut } from './login.ts';
import { createOpenApi } from './openapi.ts';
import { type EntrySearch, type ExplainReply, OperationFault } from './operations.ts';

/** The media type of the text format of Prometheus, as prom-client names it. */
const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

const wholeNumber = (min: number, max: number) =>
  z.preprocess(
    (text) => (typeof text === 'string' && /^\d{1,9}$/.test(text) ? Number(text) : text),
    z.int().min(min).max(max),
  );

const text = (description: string) => z.string().min(1).max(longestKey).optional().describe(description);

/** Longest text that entries are searched by, in characters: SQLite takes patterns of 50,000 bytes. */
const longestContained = 8192;

const watching: readonly Endpoint[] = [
  defineEndpoint({
    id: 'readHealth',
    method: 'GET',
    path: '/healthz',
    access: 'anyone',
    summary: 'Whether the process works.',
    parameters: nothing,
    result: { description: 'The process works.', contentType: 'text/plain; charset=utf-8', schema: z.string() },
    perform: async () => 'ok\n',
  }),
  defineEndpoint({
    id: 'readReadiness',
    method: 'GET',
    path: '/readyz',
    access: 'anyone',
    summary: 'Whether requests should be sent to this server: not while it starts or stops.',
    parameters: nothing,
    result: { description: 'The server serves.', contentType: jsonType, schema: readinessSummary },
    isFailure: ({ isReady }) => !isReady,
    perform: async ({ operations }) => {
      const { isReady, reason, workers } = await operations.readReadiness();
      return { isReady, reason, serving: workers.filter(({ state }) => state === 'serving').length };
    },
  }),
  defineEndpoint({
    id: 'readMetrics',
    method: 'GET',
    path: '/metrics',
    access: 'watcher',
    summary: 'The metrics, in the text format of Prometheus.',
    parameters: nothing,
    result: { description: 'The metrics.', contentType: metricsType, schema: z.string() },
    perform: ({ operations }) => operations.formatMetrics(),
  }),
];

const stored: readonly Endpoint[] = [
  defineEndpoint({
    id: 'listEntries',
    method: 'GET',
    path: '/api/v1/entries',
    access: 'operator',
    summary: 'The stored entries: all, or those of a URL, a prefix, a host, a tag or a group.',
    parameters: z
      .strictObject({
        ...searchMembers,
        contains: z
          .string()
          .max(longestContained)
          .optional()
          .describe('Only entries whose URL has this text. The case of ASCII letters does not matter.'),
        sort: z
          .enum(['key', 'size', 'age', 'used'])
          .default('key')
          .describe('What the entries are ordered by: key, length, age of the response, or last use.'),
        order: z
          .enum(['asc', 'desc'])
          .default('asc')
          .describe('"asc": the smallest, the youngest, the longest unused first.'),
        limit: wholeNumber(1, 1000).default(100).describe('Maximum number of entries in the page.'),
        after: z
          .string()
          .max(2 * longestKey)
          .optional()
          .describe('"next" of the previous page.'),
      })
      .superRefine((given, context) => {
        const fault = searchFault(given);
        if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
      }),
    result: { description: 'A page of entries.', contentType: jsonType, schema: entryList },
    perform: ({ operations, parameters: { limit, after, sort, order, contains = '', ...search } }) =>
      operations.listEntries(
        searchOf(search) ?? { kind: 'all' },
        limit,
        after,
        // The order of keys needs no look at every entry.
        sort === 'key' && order === 'asc' && contains === ''
          ? undefined
          : { by: sort, isDescending: order === 'desc', contains },
      ),
  }),
  defineEndpoint({
    id: 'inspectEntry',
    method: 'GET',
    path: '/api/v1/entries/{generation}',
    access: 'operator',
    summary: 'One stored representation: its fields, and which of its bytes are stored.',
    parameters: z.strictObject({
      generation: z.string().min(1).max(1024).describe('"generation" of an entry.'),
      key: z.string().min(1).max(longestKey).describe('"key" of the same entry.'),
    }),
    result: { description: 'The entry.', contentType: jsonType, schema: entryDetails },
    faults: { 404: 'There is no such entry now.' },
    perform: ({ operations, parameters: { key, generation } }) => operations.inspectEntry(key, generation),
  }),
  defineEndpoint({
    id: 'purge',
    method: 'POST',
    path: '/api/v1/purge',
    access: 'operator',
    summary: 'Removes or expires stored entries. All workers have applied it when the response is sent.',
    parameters: nothing,
    body: purgeOrder,
    result: { description: 'The number of purged entries.', contentType: jsonType, schema: purgeReport },
    perform: ({ operations, body: { mode, all: _all, ...search } }) =>
      operations.purge({ search: searchOf(search) ?? { kind: 'all' }, mode }),
    change: {
      action: 'purge',
      describe: ({ body: { mode, all: _all, ...search } }, { entries }) => {
        const verb = mode === 'soft' ? 'expired' : 'removed';
        return `${countOf(entries, 'entry', 'entries')} ${verb}: ${describeSearch(search)}`;
      },
    },
  }),
  defineEndpoint({
    id: 'warm',
    method: 'POST',
    path: '/api/v1/warm',
    access: 'operator',
    summary: 'Fetches URLs into the store. The response is sent when all of them are fetched.',
    parameters: nothing,
    body: warmOrder,
    result: { description: 'The outcome for each URL.', contentType: jsonType, schema: warmReports },
    perform: async ({ operations, body }) => ({ results: await operations.warm(body) }),
    change: {
      action: 'warm',
      begin: ({ body: { urls } }) => `fetching ${urls.length === 1 ? urls[0] : countOf(urls.length, 'URL', 'URLs')}`,
      failures: (_given, { results }) => results.filter(hasFailed).map((report) => describeWarmed(report)),
      describe: (_given, { results }) => {
        const [only] = results;
        if (results.length === 1 && only !== undefined && !hasFailed(only)) return describeWarmed(only);
        const fetched = results.filter((report) => !hasFailed(report));
        const bytes = fetched.reduce((sum, report) => sum + report.bytes, 0);
        return `${fetched.length} of ${countOf(results.length, 'URL', 'URLs')} fetched, ${countOf(bytes, 'byte', 'bytes')}`;
      },
    },
  }),
  defineEndpoint({
    id: 'explain',
    method: 'POST',
    path: '/api/v1/explain',
    access: 'operator',
    summary: 'How a request would be answered, and why. Nothing is sent to the origin, and nothing is counted.',
    parameters: nothing,
    body: explainOrder,
    result: {
      description: 'The explanation, or what Rangeway would answer by itself.',
      contentType: jsonType,
      schema: explainReply,
    },
    perform: async ({ operations, body }) => toPlainData(await operations.explain(body)),
    change: {
      action: 'explain',
      describe: ({ body: { method, url } }, reply) =>
        reply.kind === 'answered'
          ? `${method} ${url} explained: ${reply.status}, ${reply.detail}`
          : `${method} ${reply.explanation.uri} explained: ${reply.explanation.decision.kind}, ${reply.explanation.decision.reason}`,
    },
  }),
];

const browsers: readonly Endpoint[] = [
  defineEndpoint({
    id: 'readSession',
    method: 'GET',
    path: '/api/v1/session',
    access: 'anyone',
    summary: 'Whether this browser is logged in.',
    parameters: nothing,
    result: { description: 'The state.', contentType: jsonType, schema: sessionStatus },
    perform: async ({ gate: { sessions, isToken } }, { fields }) => ({
      loggedIn: sessionOf(fields, sessions).kind === 'open',
      hasToken: isToken !== undefined,
    }),
  }),
  defineEndpoint({
    id: 'logIn',
    method: 'POST',
    path: '/api/v1/session',
    access: 'anyone',
    summary: 'Logs a browser in: the response sets a cookie, which is as good as the token for 12 hours.',
    parameters: nothing,
    body: loginOrder,
    result: undefined,
    faults: { 401: 'The token or the code is wrong.', 429: 'Too many wrong tokens.' },
    respond: ({ body, gate }, request) => logIn(body, request, gate),
  }),
  defineEndpoint({
    id: 'logOut',
    method: 'DELETE',
    path: '/api/v1/session',
    access: 'anyone',
    summary: 'Logs a browser out: its session ends.',
    parameters: nothing,
    result: undefined,
    respond: ({ gate, activity: feed }, request) => logOut(request, gate, feed),
  }),
  defineEndpoint({
    id: 'createSessionCode',
    method: 'POST',
    path: '/api/v1/session-codes',
    access: 'operator',
    summary: 'A code that logs a browser in once, within five minutes.',
    parameters: nothing,
    body: nothing,
    result: { description: 'The code.', contentType: jsonType, schema: sessionCode },
    perform: async ({ gate: { sessions }, dashboard: { url } }) => ({ ...sessions.createCode(), url }),
  }),
];

const running: readonly Endpoint[] = [
  defineEndpoint({
    id: 'readStatus',
    method: 'GET',
    path: '/api/v1/status',
    access: 'operator',
    summary: 'The processes, and whether they serve.',
    parameters: nothing,
    result: { description: 'The state of the server.', contentType: jsonType, schema: serverStatus },
    perform: ({ operations }) => operations.readReadiness(),
  }),
  defineEndpoint({
    id: 'readActivity',
    method: 'GET',
    path: '/api/v1/activity',
    access: 'operator',
    summary: 'What the server does now: totals since its start, transfers, origins, and the most requested URIs.',
    parameters: nothing,
    result: { description: 'The activity.', contentType: jsonType, schema: activity },
    perform: ({ activity: feed }) => feed.read(),
  }),
  defineEndpoint({
    id: 'watchActivity',
    method: 'GET',
    path: '/api/v1/activity/stream',
    access: 'operator',
    summary: 'The activity as server-sent events, one at once and then one each second. Slow clients miss some.',
    parameters: nothing,
    result: {
      description: 'Events named "activity". The data of each is an activity in JSON, in one line.',
      contentType: 'text/event-stream; charset=utf-8',
      schema: z.string(),
    },
    respond: ({ activity: feed, gate }, request) => feed.open(request.method, admissionOf(request, gate.sessions)),
  }),
  defineEndpoint({
    id: 'listDecisions',
    method: 'GET',
    path: '/api/v1/decisions',
    access: 'operator',
    summary:
      'What happened to the last requests that were no plain hits, and to all while this or the activity is read.',
    parameters: z
      .strictObject({
        uri: text('Only requests for this URI, and what happened to its entries.'),
        key: text('Only requests for entries of this key, and what happened to them.'),
        limit: wholeNumber(1, 1000).default(100).describe('Maximum number of decisions.'),
      })
      .refine(({ uri, key }) => uri === undefined || key === undefined, 'uri and key exclude each other'),
    result: { description: 'The decisions.', contentType: jsonType, schema: decisionList },
    perform: async ({ operations, parameters: { limit, ...search } }) => ({
      // A union of objects is read-only at every depth already.
      decisions: (await operations.readDecisions(search, limit)) as z.input<typeof decisionList>['decisions'],
    }),
  }),
  defineEndpoint({
    id: 'listFills',
    method: 'GET',
    path: '/api/v1/fills',
    access: 'operator',
    summary: 'The running transfers from origins (fills) of this machine.',
    parameters: nothing,
    result: { description: 'The fills of all workers.', contentType: jsonType, schema: fillList },
    perform: async ({ operations }) => ({ fills: await operations.listFills() }),
  }),
  defineEndpoint({
    id: 'cancelFill',
    method: 'DELETE',
    path: '/api/v1/fills/{id}',
    access: 'operator',
    summary: 'Stops a fill of this machine. Clients that read it are disconnected; what is stored of it stays.',
    parameters: z.strictObject({ id: z.string().min(1).max(1024).describe('"id" of a fill.') }),
    result: undefined,
    faults: { 404: 'This machine has no such fill now.' },
    perform: async ({ operations, parameters: { id } }) => {
      if (!(await operations.cancelFill(id)))
        throw new OperationFault('not_found', 'This machine has no such fill now.');
    },
    change: { action: 'cancel', describe: ({ parameters: { id } }) => `the transfer ${id} was ended` },
  }),
  defineEndpoint({
    id: 'listOrigins',
    method: 'GET',
    path: '/api/v1/origins',
    access: 'operator',
    summary: 'The origins of all routes: their health, and whether they support ranges.',
    parameters: nothing,
    result: { description: 'The origins, as each worker knows them.', contentType: jsonType, schema: originList },
    perform: async ({ operations }) => ({ origins: await operations.listOrigins() }),
  }),
  defineEndpoint({
    id: 'readConfig',
    method: 'GET',
    path: '/api/v1/config',
    access: 'operator',
    summary: 'The active configuration.',
    parameters: nothing,
    result: { description: 'The configuration, without secrets.', contentType: jsonType, schema: runningConfig },
    perform: async ({ operations }) => (await operations.readConfig()) as Record<string, unknown>,
  }),
  defineEndpoint({
    id: 'readLog',
    method: 'GET',
    path: '/api/v1/log',
    access: 'operator',
    summary: 'The level of the log.',
    parameters: nothing,
    result: { description: 'The level.', contentType: jsonType, schema: logSetting },
    perform: async ({ operations }) => ({ level: await operations.readLogLevel() }),
  }),
  defineEndpoint({
    id: 'setLog',
    method: 'PUT',
    path: '/api/v1/log',
    access: 'operator',
    summary: 'Sets the level of the log, until the configuration is read again.',
    parameters: nothing,
    body: logSetting,
    result: { description: 'The level from now on.', contentType: jsonType, schema: logSetting },
    perform: async ({ operations, body }) => {
      await operations.setLogLevel(body.level);
      return body;
    },
    change: { action: 'level', describe: (_given, { level }) => `the level of the log is "${level}" now` },
  }),
  defineEndpoint({
    id: 'reload',
    method: 'POST',
    path: '/api/v1/reload',
    access: 'operator',
    summary: 'Reads the configuration again, and activates it. Where it cannot be used, nothing changes.',
    parameters: nothing,
    body: nothing,
    result: undefined,
    perform: ({ operations }) => operations.reload(),
    change: { action: 'reload', describe: () => 'the configuration was read again' },
  }),
  defineEndpoint({
    id: 'describeApi',
    method: 'GET',
    path: '/api/v1/openapi.json',
    access: 'operator',
    summary: 'This description.',
    parameters: nothing,
    result: { description: 'OpenAPI 3.1.', contentType: jsonType, schema: z.record(z.string(), z.unknown()) },
    perform: async () => createOpenApi(endpoints),
  }),
];

type Warmed = Frozen<z.output<typeof warmReports>>['results'][number];

/** Checks whether a URL was not fetched. A response with an error status is a success for a client, but not for a warming. */
function hasFailed({ status, error }: Warmed): boolean {
  return error !== undefined || status < 200 || status >= 400;
}

function describeWarmed(report: Warmed): string {
  const { url, status, bytes, cacheStatus, error } = report;
  if (error !== undefined) return `${url} not fetched: ${error}`;
  if (hasFailed(report)) return `${url} not fetched: the answer was ${status}`;
  return `${url} fetched: ${status}, ${countOf(bytes, 'byte', 'bytes')}${cacheStatus === undefined ? '' : `, ${cacheStatus}`}`;
}

/** Changes the type only: as JSON, the value is the same. */
function toPlainData(reply: ExplainReply): z.input<typeof explainReply> {
  return reply as z.input<typeof explainReply>;
}

function countOf(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

function describeSearch(given: Parameters<typeof searchOf>[0]): string {
  const search: EntrySearch = searchOf(given) ?? { kind: 'all' };
  switch (search.kind) {
    case 'all':
      return 'everything';
    case 'url':
      return search.url;
    case 'prefix':
      return `all below ${search.url}`;
    case 'host':
      return `all of ${search.host}`;
    case 'tag':
      return `all with the tag ${search.tag}`;
    case 'group':
      return `all of the group ${search.group} of ${search.origin}`;
  }
}

/** All endpoints. */
export const endpoints: readonly Endpoint[] = [...watching, ...browsers, ...stored, ...running];
