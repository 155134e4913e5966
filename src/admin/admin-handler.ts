/** Answers the requests of the admin listener: who may, what is meant, what comes of it. */

import { problemResponse } from '../delivery/problem.ts';
import type { Fields } from '../http/fields.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { errorKinds, ProxyError } from '../http/proxy-error.ts';
import type { AdminEvent } from '../telemetry/events.ts';
import { type AdminGateContext, refuseStranger } from './admin-gate.ts';
import { peerName } from './caller-name.ts';
import type { Endpoint, Given } from './endpoint.ts';
import { endpoints } from './endpoints.ts';
import { readJsonBody } from './json-body.ts';
import { OperationFault, type Operations } from './operations.ts';
import { allowedAt, endpointAt, findPlace, type Place, readParameters } from './routing.ts';

/** What requests are answered with. */
export interface AdminContext extends AdminGateContext {
  readonly operations: Operations;
}

/** Creates the handler. */
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
  const refusal = refuseStranger(request, accessTo(place, path), context);
  if (refusal !== undefined) return refusal;
  if (path === '*') return empty([['allow', 'GET, HEAD, OPTIONS, POST, PUT, DELETE']]);
  if (place === undefined) return problemResponse(404, 'There is nothing here.');
  const allow = [['allow', allowedAt(place)]] as const;
  if (request.method === 'OPTIONS') return empty(allow);
  const endpoint = endpointAt(place, request.method);
  if (endpoint === undefined) return problemResponse(405, 'This method is not allowed here.', allow);
  const reading = await readGiven(request, place, endpoint, query.join('?'));
  if (reading.kind === 'refused') return problemResponse(reading.status, reading.detail);
  return await perform(request, endpoint, { ...reading.given, operations: context.operations }, context);
}

/** Nobody but those who run the server learns which paths of the API there are. */
function accessTo(place: Place | undefined, path: string): Endpoint['access'] {
  return place?.endpoints[0]?.access ?? (path.startsWith('/api') ? 'operator' : 'anyone');
}

type GivenValues = Omit<Given<Endpoint['parameters'], Endpoint['parameters']>, 'operations'>;

type GivenReading =
  | { readonly kind: 'given'; readonly given: GivenValues }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string };

async function readGiven(
  request: ProxyRequest,
  place: Place,
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
  { peer }: ProxyRequest,
  endpoint: Endpoint,
  given: Parameters<Endpoint['perform']>[0],
  { emit }: AdminContext,
): Promise<ProxyResponse> {
  const { id, change } = endpoint;
  const tell = (level: 'info' | 'warn', message: string, stage?: AdminEvent['stage']): void => {
    if (change !== undefined)
      emit({ kind: 'admin', level, action: change.action, stage, peer: peerName(peer), message });
  };
  if (change?.begin !== undefined) tell('info', change.begin(given), 'begun');
  try {
    const result = await endpoint.perform(given);
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

/** What is true now is not true later, and is for who has asked. */
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

const toldIssues = 3;
const longestDetail = 500;

function describeIssues(issues: readonly Issue[]): string {
  const sentences = issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`));
  const more = issues.length > toldIssues ? [`and ${issues.length - toldIssues} more`] : [];
  return [...sentences.slice(0, toldIssues), ...more].join('; ');
}

function malformed(reason: string): GivenReading {
  return {
    kind: 'refused',
    status: 400,
    detail: `The request is not as it should be: ${reason.slice(0, longestDetail)}.`,
  };
}

/** Who asks for the metrics while they are being put together gets the same ones: whoever may ask may ask often. */
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
