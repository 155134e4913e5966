/**
 * Opens the admin listener, and answers its requests: it finds the endpoint, checks access, reads path, query and JSON body,
 * and performs the operation. Its connections do not count against the limits for clients.
 */

import { problemResponse } from '../delivery/problem.ts';
import { type Fields, fieldLines, hasField } from '../http/fields.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { errorKinds, ProxyError } from '../http/proxy-error.ts';
import type { ListenSocket } from '../listener/accept/bind.ts';
import { createConnectionLimits } from '../listener/accept/connection-limits.ts';
import { type Listener, openListener } from '../listener/accept/open-listener.ts';
import type { ListenerLimits } from '../listener/listener.ts';
import type { AdminEvent } from '../telemetry/events.ts';
import { type AdminGateContext, checkAccess, peerName } from './access.ts';
import type { ActivityFeed } from './activity.ts';
import type { Endpoint, EndpointInput } from './endpoint.ts';
import { endpoints } from './endpoints.ts';
import { OperationFault, type Operations } from './operations.ts';
import { answerPage, type Dashboard, pageFileName } from './page.ts';

/** Options of an admin listener. */
interface AdminListenerOptions extends AdminContext {
  /** The source of connections. Closed with the listener. */
  readonly socket: ListenSocket;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** Small and fixed: requests to the API need no more. A target may contain a percent-encoded key and a cursor. */
const limits: ListenerLimits = {
  targetBytes: 786_432,
  fieldsBytes: 16_384,
  maxFieldCount: 100,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 10_000,
  idleTimeoutMs: 30_000,
  responseTimeoutMs: 0,
  minBytesPerSecond: 1024,
  minUploadBytesPerSecond: 1024,
  streamsPerConnection: 1,
};

/** A few clients cannot take all connections: each leaves as many as it has. */
const connections = { connections: 200, connectionsPerClient: 100, leavesRoom: true };

/** Opens an admin listener. */
export function openAdminListener({ socket, now, ...context }: AdminListenerOptions): Promise<Listener> {
  return openListener({
    socket,
    handler: createAdminHandler(context),
    // Connections to this listener are not counted as those of clients.
    emit: (event) => {
      if (event.kind !== 'connection') context.emit(event);
    },
    now,
    limits,
    connections: createConnectionLimits({ ...connections, isExempt: () => false }),
  });
}

/** The parts that requests are answered with. */
interface AdminContext extends AdminGateContext {
  readonly operations: Operations;
  readonly activity: ActivityFeed;
  readonly dashboard: Dashboard;
}

/** Creates the handler of an admin listener. */
export function createAdminHandler(context: AdminContext): Handler {
  const shared: AdminContext = { ...context, operations: withSharedMetrics(context.operations) };
  return async (request) => {
    try {
      return await answer(request, shared);
    } catch (thrown) {
      return answerFault(thrown, request, shared);
    }
  };
}

async function answer(request: ProxyRequest, context: AdminContext): Promise<ProxyResponse> {
  const [path = '', ...query] = request.target.split('?');
  const place = findPlace(endpoints, path);
  const refusal = checkAccess(request, accessTo(place, path), context);
  if (refusal !== undefined) return refusal;
  if (path === '*') return empty([['allow', 'GET, HEAD, OPTIONS, POST, PUT, DELETE']]);
  if (place === undefined) {
    const name = pageFileName(path);
    if (name !== undefined) return answerPage(request, name, context.dashboard.readFiles);
    return problemResponse(404, 'There is nothing here.');
  }
  const allow = [['allow', allowedAt(place)]] as const;
  if (request.method === 'OPTIONS') return empty(allow);
  const endpoint = endpointAt(place, request.method);
  if (endpoint === undefined) return problemResponse(405, 'This method is not allowed here.', allow);
  const reading = await readGiven(request, place, endpoint, query.join('?'));
  if (reading.kind === 'refused') return problemResponse(reading.status, reading.detail);
  const { operations, activity, dashboard } = context;
  const given = { ...reading.given, operations, activity, dashboard, gate: context };
  return endpoint.respond?.(given, request) ?? (await perform(request, endpoint, given, context));
}

/** Returns the access for a path. Unknown paths of the API need access too, so that only operators learn which paths there are. */
function accessTo(place: EndpointPlace | undefined, path: string): Endpoint['access'] {
  return place?.endpoints[0]?.access ?? (path.startsWith('/api') ? 'operator' : 'anyone');
}

type GivenValues = Pick<EndpointInput<Endpoint['parameters'], Endpoint['parameters']>, 'parameters' | 'body'>;

type GivenReading =
  | { readonly kind: 'given'; readonly given: GivenValues }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string };

async function readGiven(
  request: ProxyRequest,
  place: EndpointPlace,
  endpoint: Endpoint,
  query: string,
): Promise<GivenReading> {
  const reading = readParameters(place, query);
  if (reading.kind === 'refused') return malformed(reading.reason);
  const parameters = endpoint.parameters.safeParse(reading.values);
  if (!parameters.success) return malformed(describeIssues(parameters.error.issues));
  if (endpoint.body === undefined) return { kind: 'given', given: { parameters: parameters.data, body: undefined } };
  const read = await readJsonBody(request);
  if (read.kind === 'refused') return read;
  const body = endpoint.body.safeParse(read.value);
  if (!body.success) return malformed(describeIssues(body.error.issues));
  return { kind: 'given', given: { parameters: parameters.data, body: body.data } };
}

async function perform(
  request: ProxyRequest,
  endpoint: Endpoint,
  given: EndpointInput<Endpoint['parameters'], Endpoint['parameters']>,
  { emit }: AdminContext,
): Promise<ProxyResponse> {
  const { id, change } = endpoint;
  const { peer } = request;
  const tell = (level: 'info' | 'warn', message: string, stage?: AdminEvent['stage']): void => {
    if (change !== undefined)
      emit({ kind: 'admin', level, action: change.action, stage, peer: peerName(peer), message });
  };
  if (change?.begin !== undefined) tell('info', change.begin(given), 'begun');
  try {
    const result = await endpoint.perform?.(given, request);
    for (const failure of change?.failures?.(given, result) ?? []) tell('warn', failure, 'part');
    if (change !== undefined) tell('info', change.describe(given, result));
    return succeed(endpoint, result);
  } catch (thrown) {
    tell('warn', `${id} failed: ${messageOf(thrown)}`);
    throw thrown;
  }
}

function succeed({ result: form, isFailure }: Endpoint, result: unknown): ProxyResponse {
  if (form === undefined) return empty([]);
  const bytes = Buffer.from(typeof result === 'string' ? result : `${JSON.stringify(result)}\n`);
  return {
    status: isFailure?.(result) === true ? 503 : 200,
    fields: [['content-type', form.contentType], ...ownFields],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}

/** A response states what is true now, and is for this client only. */
const ownFields: Fields = [
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
];

function empty(fields: Fields): ProxyResponse {
  return { status: 204, fields: [...ownFields, ...fields], body: { kind: 'none' } };
}

const faultStatuses = { invalid: 422, not_found: 404, unavailable: 503 } as const;

function answerFault(thrown: unknown, { method, target, peer }: ProxyRequest, { emit }: AdminContext): ProxyResponse {
  if (thrown instanceof OperationFault) return problemResponse(faultStatuses[thrown.reason], thrown.message);
  if (thrown instanceof ProxyError && thrown.source === 'client') {
    return problemResponse(thrown.status, errorKinds[thrown.code].sentence);
  }
  const [path = ''] = target.split('?');
  const message = `${method} ${path} failed: ${messageOf(thrown)}`;
  emit({ kind: 'admin', level: 'warn', action: 'failed', peer: peerName(peer), message });
  return problemResponse(500, 'It failed; the log tells why.');
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

const listedIssues = 3;
const longestDetail = 500;

function describeIssues(issues: readonly Issue[]): string {
  const sentences = issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`));
  const more = issues.length > listedIssues ? [`and ${issues.length - listedIssues} more`] : [];
  return [...sentences.slice(0, listedIssues), ...more].join('; ');
}

function malformed(reason: string): GivenReading {
  return {
    kind: 'refused',
    status: 400,
    detail: `The request is malformed: ${reason.slice(0, longestDetail)}.`,
  };
}

/** Requests for the metrics share one that is running: a client that may ask for them may ask often. */
function withSharedMetrics(operations: Operations): Operations {
  let running: Promise<string> | undefined;
  const formatMetrics = (): Promise<string> => {
    running ??= operations.formatMetrics().finally(() => {
      running = undefined;
    });
    return running;
  };
  return new Proxy(operations, {
    get: (target, name) => (name === 'formatMetrics' ? formatMetrics : Reflect.get(target, name, target)),
  });
}

/** The endpoints of a path, one for each method, and the parameters in the path. */
interface EndpointPlace {
  readonly endpoints: readonly Endpoint[];
  readonly parameters: PathParameters;
}

type PathParameters = ReadonlyMap<string, string>;

/** Parameters by their names, or why there are none. */
type ParametersReading =
  | { readonly kind: 'parameters'; readonly values: Readonly<Record<string, string>> }
  | { readonly kind: 'refused'; readonly reason: string };

/** Finds the endpoints of a path; undefined where there are none. Only the segments that are parameters are decoded. */
function findPlace(table: readonly Endpoint[], path: string): EndpointPlace | undefined {
  for (const { path: pattern } of table) {
    const parameters = matchPath(pattern, path);
    if (parameters !== undefined) return { endpoints: table.filter((each) => each.path === pattern), parameters };
  }
  return undefined;
}

/** Returns the value of Allow for a path (RFC 9110 §10.2.1). */
function allowedAt({ endpoints }: EndpointPlace): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  return [...methods, 'OPTIONS'].join(', ');
}

/** Returns the endpoint of a method. HEAD uses that of GET. */
function endpointAt({ endpoints }: EndpointPlace, method: string): Endpoint | undefined {
  return endpoints.find((each) => each.method === (method === 'HEAD' ? 'GET' : method));
}

/** Reads the parameters of a path and a query. Refuses a parameter that occurs twice. */
function readParameters({ parameters }: EndpointPlace, query: string): ParametersReading {
  if (decode(query) === undefined) return { kind: 'refused', reason: 'the query is not percent-encoded UTF-8' };
  const values = new Map(parameters);
  for (const [name, value] of new URLSearchParams(query)) {
    if (values.has(name)) return { kind: 'refused', reason: `${JSON.stringify(name)} is there twice` };
    values.set(name, value);
  }
  return { kind: 'parameters', values: Object.fromEntries(values) };
}

function matchPath(pattern: string, path: string): PathParameters | undefined {
  const expected = pattern.split('/');
  const segments = path.split('/');
  if (segments.length !== expected.length) return undefined;
  const parameters = new Map<string, string>();
  for (const [index, segment] of segments.entries()) {
    const name = /^\{(\w+)\}$/.exec(expected[index] ?? '')?.[1];
    if (name === undefined) {
      if (segment !== expected[index]) return undefined;
      continue;
    }
    const value = decode(segment);
    if (value === undefined || value === '') return undefined;
    parameters.set(name, value);
  }
  return parameters;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The value of a body, or the refusal of the request. */
type BodyReading =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string };

/** Maximum size of a body, in bytes. */
const maxBytes = 1024 * 1024;

/**
 * Reads a JSON body. Its type has to be stated, because browsers send JSON to other origins only after a preflight request (Fetch
 * standard §4.8), which is refused. An empty body is an empty object. Rejects with `ProxyError` when the body breaks off.
 */
async function readJsonBody({ fields, body, bodySizeBytes }: ProxyRequest): Promise<BodyReading> {
  const types = fieldLines(fields, 'content-type');
  if (
    types.length !== 1 ||
    !/^application\/json[\t ]*(?:;|$)/i.test(types[0] ?? '') ||
    hasField(fields, 'content-encoding')
  ) {
    return refused(415, 'This needs "Content-Type: application/json".');
  }
  if (bodySizeBytes !== undefined && bodySizeBytes > maxBytes) return tooLarge;
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body ?? []) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) return tooLarge;
    chunks.push(chunk);
  }
  return sizeBytes === 0 ? { kind: 'value', value: {} } : parse(Buffer.concat(chunks, sizeBytes));
}

function parse(bytes: Uint8Array): BodyReading {
  try {
    return { kind: 'value', value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) };
  } catch {
    return refused(400, 'The body is not JSON in UTF-8 (RFC 8259).');
  }
}

const tooLarge = refused(413, 'The body of the request is larger than 1 MiB.');

function refused(status: number, detail: string): BodyReading & { kind: 'refused' } {
  return { kind: 'refused', status, detail };
}
