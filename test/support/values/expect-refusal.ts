/** The form of every refusal by a listener. */

import { expect } from 'vitest';
import { type ErrorCode, errorKinds } from '../../../src/http/proxy-error.ts';
import { type RawResponse, rawValues } from '../clients/raw-client.ts';

/** Expects problem details with the sentence of the error table, on a connection that is closed. */
export function expectRefusal(response: RawResponse | undefined, code: ErrorCode): void {
  const { status, sentence } = errorKinds[code];
  expect(response?.status).toBe(status);
  if (response === undefined) return;
  expect(JSON.parse(response.body.toString())).toMatchObject({ status, detail: sentence });
  expect(rawValues(response, 'content-type')).toEqual(['application/problem+json']);
  expect(rawValues(response, 'connection')).toEqual(['close']);
  expect(rawValues(response, 'date')).toHaveLength(1);
}
