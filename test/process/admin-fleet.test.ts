/** The admin listener of a server with several workers, through the executable: it answers for all of them. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { until } from '../support/clocks/until.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';

const dir = await mkdtemp(join(tmpdir(), 'rangeway-admin-fleet-'));
afterAll(() => rm(dir, { recursive: true, force: true }));

const small = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\nbytes';

interface Worker {
  readonly id: number;
  readonly pid: number;
  readonly state: string;
}

describe('the admin listener of two workers', () => {
  it('reports on both workers, has either one perform an action, and goes on when one dies', async () => {
    await using origin = await openScriptedOrigin(async ({ request, send, closed }) => {
      if (request.target !== '/slow') {
        await send(small);
        return;
      }
      await send('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: "a"\r\n\r\nhalf');
      await closed;
    });
    const config = {
      listen: '127.0.0.1:0',
      workers: 2,
      store: { dir: join(dir, 'store') },
      log: { format: 'json' },
      admin: adminConfig,
      routes: [{ origin: origin.url, fill: { resumeAttempts: 0 } }],
    };
    await using server = await startConfigured(dir, config, adminEnvironment);
    const ask = await findAdmin(server);
    const workers = async (): Promise<readonly Worker[]> => (await ask('GET', '/api/v1/status')).json.workers;

    expect((await ask('GET', '/readyz')).json).toEqual({ isReady: true, serving: 2 });
    expect((await workers()).map(({ id, state }) => [id, state])).toEqual([
      [1, 'serving'],
      [2, 'serving'],
    ]);
    const { json: list } = await ask('GET', '/api/v1/origins');
    expect(list.origins.map(({ worker }: { worker: number }) => worker)).toEqual([1, 2]);

    await (await fetch(`${server.url}/film`)).text();
    await until('the entry is stored', async () => (await ask('GET', '/api/v1/entries')).json.entries.length === 1);
    expect((await ask('GET', '/api/v1/entries')).json.entries).toMatchObject([{ uri: `${server.url}/film` }]);
    expect((await ask('POST', '/api/v1/purge', { url: `${server.url}/film` })).json).toEqual({ entries: 1 });
    expect((await ask('GET', '/api/v1/entries')).json.entries).toEqual([]);

    const read = fetch(`${server.url}/slow`)
      .then((response) => response.text())
      .then(
        () => 'whole',
        () => 'cut',
      );
    let fills: readonly { readonly id: string }[] = [];
    await until('the fill is running', async () => {
      fills = (await ask('GET', '/api/v1/fills')).json.fills;
      return fills.length > 0;
    });
    expect((await ask('DELETE', `/api/v1/fills/${encodeURIComponent(fills[0]?.id ?? '')}`)).status).toBe(204);
    expect(await read).toBe('cut');

    expect((await ask('PUT', '/api/v1/log', { level: 'debug' })).status).toBe(200);
    const [first] = await workers();
    process.kill(first?.pid ?? 0, 'SIGKILL');
    await until('the dead worker is replaced', async () => {
      const [one] = await workers();
      return one?.state === 'serving' && one.pid !== first?.pid;
    });
    expect((await ask('GET', '/readyz')).json).toEqual({ isReady: true, serving: 2 });
    // A replacement has the new level too: either worker logs its fills at `debug`.
    for (let count = 0; count < 8; count += 1) await (await fetch(`${server.url}/loud-${count}`)).text();
    await until(
      'each fill is logged',
      async () => (server.output().match(/"level":"debug"[^\n]*\/loud-/g) ?? []).length >= 8,
    );
    expect((await ask('GET', '/metrics')).text).toMatch(/^rangeway_\w+/m);
  });
});
