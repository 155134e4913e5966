/** What listeners have to know of the heads of messages. */

import { STATUS_CODES } from 'node:http';
import { wireFieldName } from '../http/field-name.ts';
import { type Fields, fieldValue } from '../http/fields.ts';

/** Fields that only a listener may write. A response that has them nevertheless must not frame itself twice. */
const framingFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Whether only a listener may write a field, on any protocol (RFC 9112 §6, RFC 9113 §8.2.2). */
export function isFramingField(name: string): boolean {
  return framingFields.has(name);
}

/** What Upgrade says of a response that must have it over HTTP/1.1: a 426 (RFC 9110 §15.5.22); undefined for any other. */
export function requiredUpgrade(status: number, fields: Fields): string | undefined {
  return status === 426 ? fieldValue(fields, 'upgrade') : undefined;
}

/** The reason phrase of a status, empty for one without. */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}

/** Fields as Node's client and its proxies take them: by wire name, with the lines of one name in a list. */
export function wireFields(fields: Fields): NodeJS.Dict<string | string[]> {
  // Without a prototype, so that no name means anything to the object.
  const headers: NodeJS.Dict<string | string[]> = Object.create(null);
  for (const [name, value] of fields) {
    const wireName = wireFieldName(name);
    const earlier = headers[wireName];
    headers[wireName] = earlier === undefined ? value : [earlier, value].flat();
  }
  return headers;
}
