/** Entries and decisions in the admin API of the executable, with one and two workers. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { until } from '../support/clocks/until.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';

const root = await mkdtemp(join(tmpdir(), 'rangeway-decisions-'));
afterAll(() => rm(root, { recursive: true, force: true }));

interface Listed {
  readonly uri: string;
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly presentBytes: number;
  readonly usedAt?: number;
}

describe.each([1, 2])('with %d workers', (workers) => {
  it('entries are sorted and searched, and what happened to each is told', async () => {
    await using origin = await openScriptedOrigin(async ({ request, send }) => {
      const size = Number(/\d+/.exec(request.target)?.[0] ?? 1);
      const head = `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\n`;
      await send(head + 'x'.repeat(size));
    });
    const config = {
      listen: '127.0.0.1:0',
      workers,
      store: { dir: join(root, `store-${workers}`) },
      log: { format: 'json' },
      admin: adminConfig,
      routes: [{ origin: origin.url }],
    };
    await using server = await startConfigured(root, config, adminEnvironment);
    const ask = await findAdmin(server);
    const fetchOne = async (path: string) => {
      await (await fetch(server.url + path, { headers: { connection: 'close' } })).arrayBuffer();
    };
    const list = async (query: string): Promise<readonly Listed[]> =>
      (await ask('GET', `/api/v1/entries?${query}`)).json.entries;
    const names = async (query: string) => (await list(query)).map(({ uri }) => uri.replace(server.url, ''));

    for (const path of ['/Film-30', '/film-10', '/song-20']) await fetchOne(path);
    await until('all are stored', async () => (await list('')).length === 3);
    expect(await names('sort=size')).toEqual(['/film-10', '/song-20', '/Film-30']);
    expect(await names('sort=size&order=desc&contains=FILM')).toEqual(['/Film-30', '/film-10']);
    expect(await names('sort=age&order=desc')).toEqual(['/Film-30', '/film-10', '/song-20']);
    const first = (await ask('GET', '/api/v1/entries?sort=size&limit=2')).json;
    const after = encodeURIComponent(first.next);
    expect(await names(`sort=size&limit=2&after=${after}`)).toEqual(['/Film-30']);
    expect((await ask('GET', `/api/v1/entries?sort=age&after=${after}`)).status).toBe(422);

    // Either worker may answer a hit, and only that worker knows of the use. Uses are known to the second.
    await until('it is the last that was used', async () => {
      await fetchOne('/song-20');
      return (await names('sort=used&order=desc'))[0] === '/song-20';
    });
    const [song] = await list('sort=used&order=desc');
    expect(song).toMatchObject({ sizeBytes: 20, presentBytes: 20 });
    expect(song?.usedAt).toBeGreaterThan(1_700_000_000_000);

    const { key = '', generation = '' } = song ?? {};
    const one = await ask('GET', `/api/v1/entries/${generation}?key=${encodeURIComponent(key)}`);
    expect(one.json).toMatchObject({ present: [{ start: 0, end: 20 }], hot: [{ start: 0, end: 20 }], arriving: [] });

    const decided = async (query: string) => (await ask('GET', `/api/v1/decisions?${query}`)).json.decisions;
    expect(await decided('limit=2')).toHaveLength(2);
    const ofSong = `uri=${encodeURIComponent(`${server.url}/song-20`)}`;
    await until('the transfer is over', async () => {
      const found: readonly { event?: string; outcome?: string }[] = await decided(ofSong);
      return found.some(({ event }) => event === 'filled') && found.some(({ outcome }) => outcome === 'miss');
    });
    // Readings have begun: hits are remembered, too.
    await fetchOne('/song-20');
    await until('a hit is told', async () => (await decided(ofSong))[0]?.outcome === 'hit');
    expect((await ask('POST', '/api/v1/purge', { url: `${server.url}/song-20` })).json).toEqual({ entries: 1 });
    const ofKey = await decided(`key=${encodeURIComponent(key)}`);
    expect(ofKey[0]).toMatchObject({ event: 'purged' });
    // The transfer or the request may end first.
    const miss = { outcome: 'miss', reason: 'uri-miss', originBytes: 20, sentBytes: 20 };
    expect(ofKey.slice(-2)).toContainEqual(expect.objectContaining(miss));
    expect((await ask('GET', '/api/v1/decisions?uri=a&key=b')).status).toBe(400);
  });
});
