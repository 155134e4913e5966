/** From an event to what the log keeps of it: its level, its message, its fields, all text redacted. */

import type {
  AdminEvent,
  CountedEvent,
  ExchangeEvent,
  FillEvent,
  FleetEvent,
  LifeEvent,
  ListenerEvent,
  LogEvent,
  OriginEvent,
  RefusalEvent,
  RequestEvent,
  ServerEvent,
  StoreEvent,
  TunnelEvent,
} from './events.ts';
import { redact } from './redact.ts';

/** What is worth a line. */
export type LoggedEvent = Exclude<ServerEvent, CountedEvent>;

/** Whether an event is worth a line. */
export function isLogged(event: ServerEvent): event is LoggedEvent {
  switch (event.kind) {
    case 'begun':
    case 'called_off':
    case 'connection':
    case 'revalidation':
      return false;
    default:
      return true;
  }
}

/** The levels of lines, the least important first. */
export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** What the log keeps of an event. What is undefined is left out. */
export type LogFields =
  | ReturnType<typeof requestFields>
  | ReturnType<typeof refusalFields>
  | ReturnType<typeof tunnelFields>
  | ReturnType<typeof fillFields>
  | ReturnType<typeof exchangeFields>
  | ReturnType<typeof storeFields>
  | ReturnType<typeof originFields>
  | ReturnType<typeof listenerFields>
  | ReturnType<typeof fleetFields>
  | ReturnType<typeof adminFields>
  | ReturnType<typeof lifeFields>
  | ReturnType<typeof logFields>;

/** How important an event is. The faults of clients are ordinary; those of origins and of the store want attention. */
export function levelOf(event: LoggedEvent): LineLevel {
  switch (event.kind) {
    case 'store':
    case 'listener':
    case 'fleet':
    case 'admin':
      return event.level;
    case 'origin':
    case 'log':
      return 'warn';
    case 'life':
      return event.stage === 'cut' || event.stage === 'reload_failed' ? 'warn' : 'info';
    case 'fill':
      return event.result === 'failed' ? 'warn' : 'debug';
    // What it came to is told by the request or the fill that it was for.
    case 'exchange':
      return 'debug';
    default:
      return levelOfError(event.error);
  }
}

function levelOfError(error: string | undefined): LineLevel {
  if (error === 'internal') return 'error';
  return error?.startsWith('origin_') || error === 'bytes_gone' ? 'warn' : 'info';
}

/** The sentence of a line: what a store, an origin's route, a listener or the server says itself, otherwise the kind of the event. */
export function messageOf(event: LoggedEvent): string {
  switch (event.kind) {
    case 'life':
    case 'store':
    case 'origin':
    case 'listener':
    case 'fleet':
    case 'admin':
    case 'log':
      return redact(event.message);
    default:
      return event.kind;
  }
}

/** The fields of a line. */
export function fieldsOf(event: LoggedEvent): LogFields {
  switch (event.kind) {
    case 'request':
      return requestFields(event);
    case 'refusal':
      return refusalFields(event);
    case 'tunnel':
      return tunnelFields(event);
    case 'fill':
      return fillFields(event);
    case 'exchange':
      return exchangeFields(event);
    case 'store':
      return storeFields(event);
    case 'origin':
      return originFields(event);
    case 'listener':
      return listenerFields(event);
    case 'fleet':
      return fleetFields(event);
    case 'admin':
      return adminFields(event);
    case 'life':
      return lifeFields(event);
    case 'log':
      return logFields(event);
  }
}

/** `formatRequestLine` writes the same as JSON. */
function requestFields(event: RequestEvent) {
  return {
    event: event.kind,
    method: redact(event.method),
    scheme: event.scheme,
    authority: redact(event.authority),
    target: redact(event.target),
    version: event.version,
    status: event.status,
    range: redactSome(event.range),
    bytes: event.bytesSent,
    complete: event.complete,
    outcome: event.outcome,
    reason: redactSome(event.reason),
    apartBy: redactSome(event.apartBy?.join(', ')),
    collapsed: event.collapsed,
    originBytes: event.originBytes,
    headMs: roundMs(event.headMs),
    totalMs: roundMs(event.durationMs),
    route: redactSome(event.route),
    peer: event.peer,
    client: event.client,
    user: redactSome(event.user),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
    traceId: event.traceId,
  };
}

function refusalFields(event: RefusalEvent) {
  return {
    event: event.kind,
    status: event.status,
    peer: event.peer,
    error: event.error,
    errorDetail: redactSome(event.detail),
  };
}

function tunnelFields(event: TunnelEvent) {
  return {
    event: event.kind,
    authority: redact(event.authority),
    target: redact(event.target),
    status: event.status,
    bytesFromOrigin: event.bytesFromOrigin,
    bytesToOrigin: event.bytesToOrigin,
    totalMs: roundMs(event.durationMs),
    peer: event.peer,
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function fillFields(event: FillEvent) {
  return {
    event: event.kind,
    key: redact(event.key),
    generation: event.generation,
    bytes: event.bytes,
    result: event.result,
    resumptions: event.resumptions,
    totalMs: roundMs(event.durationMs),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function exchangeFields(event: ExchangeEvent) {
  return {
    event: event.kind,
    route: redact(event.route),
    origin: redact(event.origin),
    method: redact(event.method),
    status: event.status,
    resent: event.isResent,
    bytes: event.receivedBytes,
    headMs: event.headMs === undefined ? undefined : roundMs(event.headMs),
    totalMs: roundMs(event.durationMs),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function storeFields(event: StoreEvent) {
  return { event: event.kind, detail: redactSome(event.detail) };
}

function originFields(event: OriginEvent) {
  return { event: event.kind, route: event.route, detail: redactSome(event.detail) };
}

function listenerFields(event: ListenerEvent) {
  return { event: event.kind };
}

function fleetFields(event: FleetEvent) {
  return { event: event.kind, worker: event.worker, stage: event.stage, detail: redactSome(event.detail) };
}

function adminFields(event: AdminEvent) {
  return { event: event.kind, action: event.action, stage: event.stage, peer: event.peer };
}

function lifeFields(event: LifeEvent) {
  return { event: event.kind, stage: event.stage, addresses: event.addresses, admin: event.admin };
}

function logFields(event: LogEvent) {
  return { event: event.kind, dropped: event.droppedLines };
}

function redactSome(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text);
}

/** Hundredths of a millisecond are all that is worth reading. */
export function roundMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}
