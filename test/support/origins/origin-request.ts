/** Requests toward an origin for tests, and what came of them. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { OriginRequest, OriginResponse } from '../../../src/origin/origin.ts';

/** A plain GET, or what the given members make of it. */
export function originRequest(given: Partial<OriginRequest> = {}): OriginRequest {
  return {
    method: 'GET',
    target: '/',
    fields: [['host', 'origin.test']],
    body: undefined,
    bodySizeBytes: undefined,
    signal: new AbortController().signal,
    ...given,
  };
}

/** Reads a body to its end or its failure: the bytes that came, and the code of what broke them off. */
export async function readBody(response: OriginResponse): Promise<{ bytes: Buffer; error: string | undefined }> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of response.body) chunks.push(chunk);
    return { bytes: Buffer.concat(chunks), error: undefined };
  } catch (thrown) {
    return { bytes: Buffer.concat(chunks), error: codeOf(thrown) };
  }
}

/** The code of a `ProxyError`; anything else is shown as it is. */
export function codeOf(thrown: unknown): string {
  return thrown instanceof ProxyError ? thrown.code : `not a ProxyError: ${String(thrown)}`;
}
