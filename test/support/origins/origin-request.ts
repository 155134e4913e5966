/** Requests to an origin for tests, and their outcome. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { OriginRequest, OriginResponse } from '../../../src/origin/origin.ts';

/** Makes a plain GET with these changes. */
export function originRequest(changes: Partial<OriginRequest> = {}): OriginRequest {
  return {
    method: 'GET',
    target: '/',
    fields: [['host', 'origin.test']],
    body: undefined,
    bodySizeBytes: undefined,
    signal: new AbortController().signal,
    ...changes,
  };
}

/** Reads a body to its end or its failure. Returns the bytes, and the code of the failure, if any. */
export async function readBody(response: OriginResponse): Promise<{ bytes: Buffer; error: string | undefined }> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of response.body) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), error: undefined };
  } catch (thrown) {
    return { bytes: Buffer.concat(chunks), error: codeOf(thrown) };
  }
}

/** Returns the code of a `ProxyError`, or a text that says that it is none. */
export function codeOf(thrown: unknown): string {
  return thrown instanceof ProxyError ? thrown.code : `not a ProxyError: ${String(thrown)}`;
}
