/** What a request says of the connection that it came on. */

import { type Fields, fieldValue, listMembers } from '../../http/fields.ts';
import type { ParsedHead } from './request-head.ts';

/** What its Connection and its version ask for. */
export interface ConnectionWishes {
  /** Whether the connection ends after the response (RFC 9112 §9.3). */
  readonly isLast: boolean;
  /** Whether the client would rather speak something else on it (RFC 9110 §7.8). */
  readonly isUpgrade: boolean;
}

const kept: ConnectionWishes = { isLast: false, isUpgrade: false };
const ended: ConnectionWishes = { isLast: true, isUpgrade: false };

/** Reads them. A client of HTTP/1.0 has its connection kept only if it asks for that; `close` wins over everything. */
export function readConnectionWishes({ version, fields }: ParsedHead): ConnectionWishes {
  const connection = fieldValue(fields, 'connection');
  if (connection === undefined) return version === '1.1' ? kept : ended;
  const options = listMembers(connection.toLowerCase());
  return {
    isLast: options.includes('close') || (version === '1.0' && !options.includes('keep-alive')),
    isUpgrade: options.includes('upgrade') && fields.some(([name]) => name === 'upgrade'),
  };
}

/** RFC 6455 §4.1. A body before the handshake's end is something that no WebSocket client sends. */
export function isWebSocketHandshake({ method, version, fields }: ParsedHead): boolean {
  if (method !== 'GET' || version !== '1.1' || hasBody(fields)) return false;
  return listMembers(fieldValue(fields, 'upgrade')).some((protocol) => protocol.toLowerCase() === 'websocket');
}

function hasBody(fields: Fields): boolean {
  return fields.some(([name, value]) => {
    return name === 'transfer-encoding' || (name === 'content-length' && value !== '0');
  });
}
