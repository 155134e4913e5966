/** A client of the admin API of a started process. */

import type { RangewayProcess } from '../processes/rangeway-process.ts';

/** The token of the servers that tests start. */
export const adminToken = 'a-token-for-the-tests';

/** The environment in which a server accepts it. */
export const adminEnvironment = { RANGEWAY_TEST_ADMIN_TOKEN: adminToken };

/** The configuration of an admin listener on a free port. */
export const adminConfig = { listen: '127.0.0.1:0', token: 'env:RANGEWAY_TEST_ADMIN_TOKEN' };

/** One response. `json` is undefined where the media type is not JSON. */
export interface AdminAnswer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests check its shape.
  readonly json: any;
}

/** Sends a request. A body is sent as JSON. */
export type AskAdmin = (method: string, path: string, body?: object) => Promise<AdminAnswer>;

/** Finds the URL of the admin listener in the output of a process, and returns a client for it. */
export async function findAdmin(
  process: Pick<RangewayProcess, 'waitFor'>,
): Promise<AskAdmin & { readonly url: string }> {
  const [, url = ''] = await process.waitFor(/administered on (http:[^\s",]+)/);
  const ask: AskAdmin = async (method, path, body) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${adminToken}`,
        ...(method === 'POST' || method === 'PUT' ? { 'content-type': 'application/json' } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = /json$/.test(response.headers.get('content-type') ?? '');
    return { status: response.status, text, json: isJson ? JSON.parse(text) : undefined };
  };
  return Object.assign(ask, { url });
}
