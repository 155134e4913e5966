/** What is told of a request when it is over, whichever road it has gone. */

import type { AnswerFacts } from '../cache/answer.ts';
import { fieldValue } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { ProxyError } from '../http/proxy-error.ts';
import type { RequestEvent } from '../telemetry/events.ts';

/** What a request says before its fields. */
export type RequestLine = Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'target' | 'version'>;

/** What happened to it besides. Instants are in epoch milliseconds. */
export interface RequestCourse {
  /** The address at the other end of the connection. */
  readonly peer: string;
  /** The address of the client; undefined where it is not known apart from the peer. */
  readonly client: string | undefined;
  readonly user: string | undefined;
  readonly route: string | undefined;
  readonly range: string | undefined;
  readonly status: number;
  readonly isMultipart: boolean;
  readonly answer: Pick<AnswerFacts, 'outcome' | 'reason' | 'apartBy' | 'collapsed' | 'originBytes'> | undefined;
  readonly receivedAt: number;
  readonly headAt: number;
  readonly endedAt: number;
}

/** Whether a response says of itself that it is several parts of a representation. */
export function isMultipart({ status, fields }: Pick<ProxyResponse, 'status' | 'fields'>): boolean {
  return (
    status === 206 && fieldValue(fields, 'content-type')?.toLowerCase().startsWith('multipart/byteranges') === true
  );
}

/** The event. */
export function requestEvent(
  { method, scheme, authority, target, version }: RequestLine,
  { peer, client, user, route, range, status, isMultipart, answer, receivedAt, headAt, endedAt }: RequestCourse,
  { bytesSent, complete, error: broken }: Delivery,
  error: ProxyError | undefined = broken,
): RequestEvent {
  return {
    kind: 'request',
    method,
    scheme,
    authority,
    target,
    version,
    peer,
    client: client === peer ? undefined : client,
    user,
    route,
    status,
    range,
    bytesSent,
    complete,
    isMultipart,
    outcome: answer?.outcome ?? 'none',
    reason: answer?.reason,
    apartBy: answer?.apartBy,
    collapsed: answer?.collapsed ?? false,
    originBytes: answer?.originBytes() ?? 0,
    headMs: headAt - receivedAt,
    durationMs: endedAt - receivedAt,
    error: error?.code,
    errorDetail: error?.detail,
  };
}
