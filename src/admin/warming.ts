/** Fetching into the store what nobody has asked for yet. */

import type { Clock } from '../http/clock.ts';
import { type Fields, fieldValue } from '../http/fields.ts';
import type { Body, Handler } from '../http/message.ts';
import { toProxyError } from '../http/proxy-error.ts';
import { OperationFault, type WarmOrder, type WarmReport } from './operations.ts';
import { completeUrl, ownRequest, readFields, type Serving } from './own-request.ts';

/** The peer of requests of our own has no address. */
const ourselves = { address: '', port: 0 };

/** What is fetched with. */
export interface WarmingParts extends Serving {
  /** Answers requests of our own, by the routes that serve now: access is not asked, limits of origins hold. */
  readonly handler: () => Handler;
  readonly clock: Clock;
}

/** The most URLs of one order. */
export const maxUrls = 1000;

/** So many are fetched at a time. */
const CONCURRENT = 4;

/** How often one is tried that finds the origin's places taken, and how long it waits each time, in milliseconds. */
const ATTEMPTS = 30;
const PAUSE_MS = 1000;

/**
 * Asks for each URL as a client would with GET, a few at a time, and reads what comes without keeping it. URLs of no route
 * are refused, as for every client: nothing else can be reached by this. Redirects are told, not followed. A path alone is
 * completed (see `completeUrl`). Throws `OperationFault` `invalid`.
 */
export async function warm({ urls, fields = [] }: WarmOrder, parts: WarmingParts): Promise<readonly WarmReport[]> {
  if (urls.length > maxUrls)
    throw new OperationFault('invalid', `expected at most ${maxUrls} URLs, got ${urls.length}`);
  const sent = readFields(fields);
  if (sent.some(([name]) => name === 'host')) throw new OperationFault('invalid', 'a field "host" cannot be sent');
  const whole = urls.map((url) => completeUrl(url, parts));
  const reports: WarmReport[] = new Array(urls.length);
  const waiting = whole.entries();
  const work = async (): Promise<void> => {
    for (const [at, url] of waiting) reports[at] = await warmOne(url, sent, parts);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
  return reports;
}

async function warmOne(url: string, fields: Fields, parts: WarmingParts): Promise<WarmReport> {
  for (let attempt = 1; ; attempt += 1) {
    const report = await fetchOne(url, fields, parts);
    // No place at the origin, or no patience of its own: it says to come back.
    const isBusy = report.isBusy && attempt < ATTEMPTS;
    if (!isBusy) return report.told;
    await new Promise<void>((resolve) => void parts.clock.after(PAUSE_MS, resolve));
  }
}

interface Fetched {
  readonly told: WarmReport;
  readonly isBusy: boolean;
}

async function fetchOne(url: string, fields: Fields, { handler, clock }: WarmingParts): Promise<Fetched> {
  const request = ownRequest(url, { method: 'GET', fields, peer: ourselves, receivedAt: clock.now() });
  if (request === undefined) {
    return { told: reportOf(url, 0, undefined, 0, 'expected an http or https URL'), isBusy: false };
  }
  const { status, fields: received, body, problem, onDelivered } = await handler()(request);
  const { bytes, error } = await readAway(body);
  onDelivered?.({ bytesSent: bytes, complete: error === undefined, error });
  const cacheStatus = fieldValue(received, 'cache-status');
  // A problem of our own is no response of the resource.
  const reason = problem?.detail ?? error?.message;
  const told = reportOf(url, status, cacheStatus, problem === undefined ? bytes : 0, reason);
  return { told, isBusy: status === 503 && problem !== undefined };
}

function reportOf(
  url: string,
  status: number,
  cacheStatus: string | undefined,
  bytes: number,
  error: string | undefined,
): WarmReport {
  return { url, status, cacheStatus, bytes, error };
}

/** Reads a body to its end; tells how much it was, and why it broke off. */
async function readAway(body: Body) {
  if (body.kind !== 'stream') return { bytes: body.kind === 'none' ? 0 : body.sizeBytes, error: undefined };
  let bytes = 0;
  try {
    for await (const chunk of body.stream) bytes += chunk.length;
    return { bytes, error: undefined };
  } catch (thrown) {
    return { bytes, error: toProxyError(thrown) };
  } finally {
    body.stream.close();
  }
}
