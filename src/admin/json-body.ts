/** Reads the body of a request as JSON. */

import { fieldLines, hasField } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';

/** A value, or why there is none and with which status that is told. */
export type BodyReading =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string };

/** No request has any use for more. */
const maxBytes = 1024 * 1024;

/**
 * The value. The type has to be said, because browsers send JSON across origins only after asking (Fetch standard §4.8), and
 * are then told no. An empty body is an empty object. Rejects with `ProxyError` when the body breaks off.
 */
export async function readJsonBody({ fields, body, bodySizeBytes }: ProxyRequest): Promise<BodyReading> {
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

const tooLarge = refused(413, 'The body of the request is too large: 1 MiB is the most.');

function refused(status: number, detail: string): BodyReading & { kind: 'refused' } {
  return { kind: 'refused', status, detail };
}
