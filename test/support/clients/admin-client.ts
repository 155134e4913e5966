/** Asks the admin API of a process that was started. */

import type { RangewayProcess } from '../processes/rangeway-process.ts';

/** The token of the servers that tests start. */
export const adminToken = 'a-token-for-the-tests';

/** What makes a server take it. */
export const adminEnvironment = { RANGEWAY_TEST_ADMIN_TOKEN: adminToken };

/** An admin listener on a free port. */
export const adminConfig = { listen: '127.0.0.1:0', token: 'env:RANGEWAY_TEST_ADMIN_TOKEN' };

/** One answer. */
export interface AdminAnswer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what it says is what a test is about.
  readonly json: any;
}

/** Asks; with a body it is JSON. */
export type AskAdmin = (method: string, path: string, body?: object) => Promise<AdminAnswer>;

/** Finds the admin listener in what a process says when it is ready. */
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
