/**
 * Traces with OpenTelemetry, where an SDK is registered in this process: a span for each request and for each exchange with an
 * origin, by the semantic conventions for HTTP. The propagator that the SDK registers decides which fields carry a trace; by
 * default these are `traceparent` and `tracestate` (W3C Trace Context).
 */

import {
  type Attributes,
  type Context,
  context,
  diag,
  isSpanContextValid,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type TextMapSetter,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { RequestEvent } from './events.ts';
import { redact } from './redact.ts';

type Fields = readonly (readonly [name: string, value: string])[];

/** A request as it was received. */
export interface TracedRequest {
  readonly method: string;
  readonly scheme: string;
  readonly authority: string;
  readonly target: string;
  readonly version: string;
  readonly fields: Fields;
  readonly peer: { readonly address: string; readonly port: number };
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** A request to an origin. */
export interface SentRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
  readonly isResent?: boolean;
  /** The fields with the trace of the request that caused this one, where this one is not sent for that request alone. */
  readonly causedBy?: Fields | undefined;
}

/** The outcome of a request to an origin. */
export interface SentEnd {
  readonly status: number | undefined;
  readonly receivedBytes: number;
  readonly error: { readonly code: string; readonly source: string } | undefined;
}

/** The trace of a request or an exchange under way. */
export interface Trace<End> {
  readonly traceId: string;
  /** The fields of the request, with those that propagate the trace. */
  readonly fields: Fields;
  /** Runs an action within the trace. */
  run<Result>(action: () => Result): Result;
  /** Ends the span; called once. */
  end(end: End): void;
}

/** Traces requests and exchanges. A trace is undefined where the SDK fails: that costs the trace, not the request. */
export interface Tracing {
  receive(request: TracedRequest): Trace<RequestEvent> | undefined;
  begin(request: SentRequest, origin: URL): Trace<SentEnd> | undefined;
}

/**
 * Opens tracing by the registered SDK, which `node --import` loads before the program. Returns undefined where none is registered,
 * so that tracing costs nothing then.
 */
export function openTracing(version: string): Tracing | undefined {
  if (!isSdkRegistered()) return undefined;
  const tracer = trace.getTracer('rangeway', version);
  return {
    receive: (request) => attempt(() => receive(tracer, request)),
    begin: (request, origin) => attempt(() => begin(tracer, request, origin)),
  };
}

/** The API's own provider delegates to that of an SDK, if there is one. */
function isSdkRegistered(): boolean {
  const provider = trace.getTracerProvider() as { getDelegateTracer?: (name: string) => Tracer | undefined };
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer('rangeway') !== undefined;
}

function receive(tracer: Tracer, request: TracedRequest): Trace<RequestEvent> {
  const { fields, receivedAt } = request;
  const parent = propagation.extract(context.active(), fields, getter);
  const attributes = { ...methodAttributes(request.method), ...receivedAttributes(request) };
  const options = { kind: SpanKind.SERVER, startTime: receivedAt, attributes };
  const span = tracer.startSpan(spanName(request.method), options, parent);
  return follow(fields, span, trace.setSpan(parent, span), (event) => {
    const { route, status, error, complete } = event;
    if (route !== undefined) span.updateName(`${spanName(event.method)} ${route}`);
    span.setAttributes(endAttributes(event));
    const isClients = error === 'client_gone';
    if (status >= 500 || (!complete && !isClients)) fail(span, error ?? String(status));
    else if (isClients) span.setAttribute('error.type', error);
  });
}

function begin(tracer: Tracer, request: SentRequest, origin: URL): Trace<SentEnd> {
  const { method, fields, causedBy, isResent } = request;
  const parent = causedBy === undefined ? propagation.extract(context.active(), fields, getter) : ROOT_CONTEXT;
  const cause = causedBy && trace.getSpanContext(propagation.extract(ROOT_CONTEXT, causedBy, getter));
  const attributes = {
    ...methodAttributes(method),
    ...originAttributes(origin, request.target),
    ...(isResent === true ? { 'http.request.resend_count': 1 } : {}),
  };
  const links = cause !== undefined && isSpanContextValid(cause) ? [{ context: cause }] : [];
  const span = tracer.startSpan(spanName(method), { kind: SpanKind.CLIENT, attributes, links }, parent);
  return follow(fields, span, trace.setSpan(parent, span), ({ status, receivedBytes, error }) => {
    span.setAttribute('http.response.body.size', receivedBytes);
    if (status !== undefined) span.setAttribute('http.response.status_code', status);
    if (error?.code === 'client_gone') span.setAttribute('error.type', error.code);
    else if (error !== undefined) fail(span, error.code);
    else if (status !== undefined && status >= 400) fail(span, String(status));
  });
}

function follow<End>(fields: Fields, span: Span, active: Context, onEnd: (end: End) => void): Trace<End> {
  return {
    traceId: span.spanContext().traceId,
    fields: withTrace(fields, active),
    run: (action) => context.with(active, action),
    end: (end) =>
      attempt(() => {
        onEnd(end);
        span.end();
      }),
  };
}

/** Runs code of the SDK: samplers, processors and propagators may throw. */
function attempt<Result>(action: () => Result): Result | undefined {
  try {
    return action();
  } catch (error) {
    diag.error('rangeway: the SDK has failed', error);
    return undefined;
  }
}

/** Replaces the fields that carried a trace before. */
function withTrace(fields: Fields, active: Context): Fields {
  const names = new Set(propagation.fields());
  const injected: [string, string][] = [];
  propagation.inject(active, injected, setter);
  return [...fields.filter(([name]) => !names.has(name)), ...injected];
}

const getter: TextMapGetter<Fields> = {
  keys: (fields) => fields.map(([name]) => name),
  get(fields, key) {
    const values = fields.filter(([name]) => name === key.toLowerCase()).map(([, value]) => value);
    return values.length > 1 ? values : values[0];
  },
};

const setter: TextMapSetter<[string, string][]> = {
  set: (fields, key, value) => void fields.push([key.toLowerCase(), value]),
};

/** RFC 9110 §9.3 and RFC 5789 §2. All other methods share one name, because clients could invent any number. */
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

function spanName(method: string): string {
  return knownMethods.has(method) ? method : 'HTTP';
}

function methodAttributes(method: string): Attributes {
  if (knownMethods.has(method)) return { 'http.request.method': method };
  return { 'http.request.method': '_OTHER', 'http.request.method_original': redact(method) };
}

function receivedAttributes({ scheme, authority, target, version, peer, fields }: TracedRequest): Attributes {
  const [path = '', ...query] = redact(target).split('?');
  const agent = fields.find(([name]) => name === 'user-agent')?.[1];
  return {
    'url.scheme': scheme,
    'url.path': path,
    ...(query.length > 0 ? { 'url.query': query.join('?') } : {}),
    ...(authority === '' ? {} : { 'server.address': redact(authority) }),
    'network.protocol.version': version,
    ...(peer.address === '' ? {} : { 'network.peer.address': peer.address, 'network.peer.port': peer.port }),
    ...(agent === undefined ? {} : { 'user_agent.original': redact(agent) }),
  };
}

function originAttributes(origin: URL, target: string): Attributes {
  if (origin.protocol === 'unix:') return { 'server.address': origin.pathname, 'url.full': redact(target) };
  const port = Number(origin.port) || (origin.protocol === 'https:' ? 443 : 80);
  return { 'server.address': origin.hostname, 'server.port': port, 'url.full': redact(`${origin.origin}${target}`) };
}

function endAttributes(event: RequestEvent): Attributes {
  const { route, status, outcome, reason, collapsed, client, peer, bytesSent, originBytes } = event;
  const address = client ?? peer;
  return {
    'http.response.status_code': status,
    'http.response.body.size': bytesSent,
    ...(route === undefined ? {} : { 'http.route': route }),
    ...(address === '' ? {} : { 'client.address': address }),
    'rangeway.cache.outcome': outcome,
    ...(reason === undefined ? {} : { 'rangeway.cache.reason': redact(reason) }),
    'rangeway.cache.collapsed': collapsed,
    'rangeway.origin.received_bytes': originBytes,
  };
}

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
