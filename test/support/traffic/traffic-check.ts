/** Checks the responses of random traffic: bytes of the version that the fields name, and no response of another client's alone. */

import { expect } from 'vitest';
import { type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { ProxyResponse } from '../../../src/http/message.ts';
import type { Sent } from '../proxies/whole-proxy.ts';
import { contentOf } from './traffic-content.ts';
import { ownLifetimes, type Plan } from './traffic-plan.ts';
import type { Step } from './traffic-steps.ts';

/** A request, and the newest version that any client knew of before it: earlier versions are invalid for it. */
export interface Asked {
  readonly sent: Sent;
  /** Epoch milliseconds. */
  readonly sentAt: number;
  readonly leastVersion: number;
}

/** A response, and the origin's latest version when it had been read. */
export interface Given {
  readonly response: ProxyResponse;
  readonly bytes: Buffer;
  readonly latestVersion: number;
}

/** Fails where these bytes may not be served to this client. `clients` has all requests, by the number in X-Client. */
export function expectRightBytes(plan: Plan, asked: Asked, given: Given, clients: readonly Asked[]): void {
  const { response, bytes, latestVersion } = given;
  const { status, fields, body } = response;
  const { sent } = asked;
  const version = Number(fieldValue(fields, 'x-version'));
  if (plan.ranges === 'long' && fieldValue(fields, 'cache-status')?.includes('detail=')) return;
  expect(version).toBeGreaterThanOrEqual(asked.leastVersion);
  const asker = clients[Number(fieldValue(fields, 'x-client'))] ?? asked;
  if (sent.method === 'POST') expect(asker).toBe(asked);
  if (asker !== asked) expectSharable(plan, asked, asker, fields);

  if (body.kind !== 'none' && body.sizeBytes !== undefined) expect(bytes.length).toBe(body.sizeBytes);
  const range = fieldValue(fields, 'content-range');
  const isRight = possibleVersions(plan, version, latestVersion, asked.leastVersion).some((each) => {
    const content = contentOf(plan, each);
    if (status === 200) return bytes.equals(content);
    return range === undefined ? areParts(bytes, content) : bytes.equals(bytesOf(range, content));
  });
  if (!isRight) expect.fail(`other bytes than those of version ${version}`);
}

/**
 * Returns the versions whose bytes may come with the fields of `version`. Without a validator, a fill that is resumed before any
 * client has seen its bytes may bring later ones; and a HEAD may freshen an entry whose bytes are earlier (RFC 9111 §4.3.5).
 */
export function possibleVersions(
  { validator, isTold, steps }: Plan,
  version: number,
  latestVersion: number,
  leastVersion = 1,
): number[] {
  const isHeadAsked = steps.some((each) => each.kind === 'send' && each.sent.method === 'HEAD');
  if (validator !== 'none' || (isTold && !isHeadAsked)) return [version];
  const first = isHeadAsked ? leastVersion : version;
  return Array.from({ length: latestVersion - first + 1 }, (_, later) => first + later);
}

/** Fails where the origin's response to another client may not be served to this one. */
function expectSharable(plan: Plan, asked: Asked, asker: Asked, fields: Fields): void {
  const { lifetime, varies } = plan;
  const cacheStatus = fieldValue(fields, 'cache-status') ?? '';
  if (varies) expect(asker.sent.fields?.['accept-language']).toBe(asked.sent.fields?.['accept-language']);
  const { 'cache-control': wish, 'if-range': resumed } = asked.sent.fields ?? {};
  const isMeanwhile = lifetime === 'max-age=0' && plan.staleWhileRevalidateSeconds > 0;
  const isStale = wish === 'max-stale' || resumed !== undefined || cacheStatus.includes('fwd-status=50') || isMeanwhile;
  // A server that is closing can no longer revalidate.
  const isDisconnected = lifetime === 'max-age=0' && cacheStatus.includes('detail=client_gone');
  if (ownLifetimes.includes(lifetime) && !isStale && !isDisconnected) expect(cacheStatus).toContain('detail=origin');
  // must-revalidate allows sharing despite Authorization (RFC 9111 §3.5).
  if (!lifetime.includes('must-revalidate')) expect(fieldValue(fields, 'x-authorized')).toBe('0');
}

/** Returns the bytes of a Content-Range. */
function bytesOf(range: string, content: Uint8Array): Uint8Array {
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(range) ?? [];
  return content.subarray(Number(first), Number(last) + 1);
}

function areParts(body: Buffer, content: Uint8Array): boolean {
  const heads = [...body.toString('latin1').matchAll(/Content-Range: (bytes .*)\r\n\r\n/g)];
  return (
    heads.length > 1 &&
    heads.every(({ 0: head, 1: range = '', index }) => {
      const part = bytesOf(range, content);
      const start = index + head.length;
      return body.subarray(start, start + part.length).equals(part);
    })
  );
}

/** Returns whether a request changes the version at the origin. */
export function isUnsafe({ method }: Sent): boolean {
  return method === 'PUT' || method === 'POST';
}

const storeFaults: ReadonlySet<Step['kind']> = new Set([
  'damage',
  'fill-disk',
  'lose',
  'fault',
  'file-damage',
  'file-fault',
  'disk-full',
  'engine-damage',
  'engine-fault',
  'engine-lost',
  'engine-flush',
]);

/** Returns whether the origin's ranges and digests are true. */
export function isHonest({ ranges, digest }: Plan): boolean {
  return ['none', 'right', 'flapping'].includes(ranges) && digest !== 'wrong';
}

/** Returns the error codes with which the response of a connected client may be cut. */
export function possibleErrors({ steps, ranges: manner, digest, maxSizeBytes, unit }: Plan): string[] {
  const kinds = new Set<string>(steps.map(({ kind }) => kind));
  const has = (...some: string[]) => some.some((kind) => kinds.has(kind));
  const isPut = steps.some((each) => each.kind === 'send' && isUnsafe(each.sent));
  const isLie = ['short', 'other-length', 'long'].includes(manner);
  return [
    ...(has('refuse') ? ['origin_refused'] : []),
    ...(has('break', 'swap', 'status') || isLie ? ['origin_reset', 'origin_body_short', 'origin_failed_rest'] : []),
    // A continuation that is answered with 401, 403, 404 or 410 is not tried again.
    ...(has('status') ? ['origin_refused_rest'] : []),
    ...(has('change', 'swap', 'status') || isPut || isLie ? ['generation_changed'] : []),
    // A relayed response may come through another process, and breaks off when that process dies.
    ...(has('die') ? ['origin_reset'] : []),
    ...(digest === 'none' ? [] : ['generation_changed', 'origin_digest_mismatch']),
    ...(has(...storeFaults) || maxSizeBytes < 64 * 1024 * unit ? ['bytes_gone'] : []),
  ];
}

/** Returns the statuses that a connected client may get. */
export function possibleStatuses({ method }: Sent): number[] {
  if (method === 'PUT') return [204, 502];
  return method === 'POST' ? [200, 502] : [200, 206, 304, 412, 416, 502, 504];
}
