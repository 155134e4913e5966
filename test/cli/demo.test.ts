import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { LegacyStats } from '../../src/cli/demo/legacy-origin.ts';
import { startDemo, startRangeway } from '../support/processes/rangeway-process.ts';

const video = fileURLToPath(new URL('../../assets/demo/range-test.mp4', import.meta.url));

/** Runs a test with a directory for the TMPDIR of the demo. */
async function withTemporary(test: (dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-demo-test-'));
  try {
    await test(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function readStats(origin: string): Promise<LegacyStats> {
  return ((await (await fetch(`${origin}/demo.json`)).json()) as { stats: LegacyStats }).stats;
}

describe('rangeway demo', () => {
  it('serves its page, and ranges of a video whose origin has none', async () => {
    await using demo = await startDemo();
    const page = await fetch(demo.url);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(await page.text()).toContain('<video');

    const file = await readFile(video);
    const range = 'bytes=1000000-1000999';
    const direct = await fetch(`${demo.origin}/range-test.mp4`, { headers: { range } });
    expect(direct.status).toBe(200);
    expect(direct.headers.get('accept-ranges')).toBeNull();
    await direct.body?.cancel();

    for (const occasion of ['while it is fetched', 'when it is stored']) {
      const response = await fetch(`${demo.url}/range-test.mp4`, { headers: { range } });
      expect(response.status, occasion).toBe(206);
      expect(response.headers.get('content-range'), occasion).toBe(`bytes 1000000-1000999/${file.length}`);
      expect(Buffer.from(await response.arrayBuffer()), occasion).toEqual(file.subarray(1_000_000, 1_001_000));
    }
    const { files } = await readStats(demo.origin);
    expect(files['/range-test.mp4']?.requests, 'one by this test, one by Rangeway').toBe(2);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)('%s in the middle of a transfer: exit 0, and nothing is left', (signal) =>
    withTemporary(async (dir) => {
      await using demo = await startDemo(undefined, { TMPDIR: dir });
      const response = await fetch(`${demo.url}/download.bin`);
      await response.body?.getReader().read();
      const events = await fetch(`${demo.url}/demo-events`);
      expect(await readdir(dir)).toHaveLength(1);

      expect(await demo.stop(signal), demo.output()).toBe(0);
      expect(await readdir(dir)).toEqual([]);
      await expect(fetch(demo.url)).rejects.toThrow();
      await expect(fetch(demo.origin)).rejects.toThrow();
      await events.body?.cancel().catch(() => undefined);
    }),
  );

  it('prints commands to try, then each request', async () => {
    await using demo = await startDemo();
    const invitation = demo.output();
    expect(invitation).toContain(`curl -s -o /dev/null -D - -r -100 ${demo.origin}/range-test.mp4`);
    expect(invitation).toContain(`curl -C - -O ${demo.url}/download.bin`);
    expect(invitation).toContain('Ctrl-C');
    await (await fetch(`${demo.url}/poster.svg`, { headers: { range: 'bytes=0-3' } })).text();
    await demo.waitFor(/GET {2}206 .* 4 B .* \/poster\.svg bytes=0-3/);
  });

  it('uses the next port where 8080 is taken and --listen is not given', async () => {
    const taken = createServer().listen(8080, '127.0.0.1');
    // The port may be in use already, which serves as well.
    await Promise.race([once(taken, 'listening'), once(taken, 'close')]).catch(() => undefined);
    await using demo = await startDemo([]);
    expect(demo.url).toMatch(/^http:\/\/127\.0\.0\.1:80[89]\d$/);
    expect(demo.url).not.toContain(':8080');
    expect((await fetch(demo.url)).status).toBe(200);
    taken.close();
  });

  it('--listen with a port that is taken: one line and exit 1', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const address = taken.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await using demo = startRangeway(['demo', '--listen', `127.0.0.1:${port}`]);
    await demo.waitFor(new RegExp(`${port}.*\n`));
    expect(await demo.ended()).toBe(1);
    expect(demo.output().trim().split('\n')).toHaveLength(1);
    taken.close();
  });

  it('--origin-only: the origin alone, where --listen says', async () => {
    await using demo = startRangeway(['demo', '--origin-only', '--listen', '127.0.0.1:0']);
    const [, url = ''] = await demo.waitFor(/^origin\s+(http:\S+)\s/m);
    const response = await fetch(`${url}/poster.svg`, { headers: { range: 'bytes=0-3' } });
    expect([response.status, response.headers.get('via')]).toEqual([200, null]);
    await response.arrayBuffer();
    expect(await demo.stop('SIGTERM'), demo.output()).toBe(0);
  });

  it.each([
    ['999999', 2, /^rangeway: listen: /],
    ['unix:./origin.sock', 2, /^rangeway: --listen: the origin listens on \[host:\]port\n$/],
    ['192.0.2.1:3000', 1, /^rangeway: cannot listen on 192\.0\.2\.1:3000: /],
  ])('--origin-only --listen %s: exit %d', async (listen, code, message) => {
    await using demo = startRangeway(['demo', '--origin-only', '--listen', listen]);
    expect(await demo.ended()).toBe(code);
    expect(demo.output()).toMatch(message);
  });
});
