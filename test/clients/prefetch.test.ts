/** ffmpeg plays an HLS stream through a route with `fill.prefetch`: it gets the same frames, and the origin sends each segment once. */

import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';

const pictures = ['-f', 'lavfi', '-i', 'testsrc=size=64x48:rate=5:duration=8', '-g', '5'];

describe('ffmpeg', () => {
  itWith(['ffmpeg'], 'plays a stream whose segments are prefetched', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-prefetch-'));
    const asked: string[] = [];
    const origin = createServer(async ({ url = '' }, response) => {
      asked.push(url);
      response.setHeader('cache-control', 'max-age=600').end(await readFile(join(dir, url)));
    });
    try {
      const made = await runProgram(
        'ffmpeg',
        ['-v', 'error', ...pictures, '-f', 'hls', '-hls_time', '1', '-hls_list_size', '0', 'index.m3u8'],
        dir,
      );
      expect(made.code, made.stderr).toBe(0);
      const segments = (await readdir(dir)).filter((name) => name.endsWith('.ts')).map((name) => `/${name}`);
      expect(segments).toHaveLength(8);
      origin.listen(0, '127.0.0.1');
      await once(origin, 'listening');
      const rangeway = await startConfigured(dir, {
        listen: '127.0.0.1:0',
        store: { type: 'memory' },
        log: { level: 'debug', format: 'json' },
        routes: [
          { origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`, fill: { prefetch: { segments: 2 } } },
        ],
      });
      const framesOf = async (input: string): Promise<string> => {
        const played = await runProgram('ffmpeg', ['-v', 'error', '-i', input, '-f', 'framemd5', '-'], dir);
        expect(played.code, played.stderr).toBe(0);
        return played.stdout.toString();
      };
      const frames = await framesOf(`${rangeway.url}/index.m3u8`);
      expect(frames.match(/^0,/gm)).toHaveLength(40);
      expect(frames).toBe(await framesOf(join(dir, 'index.m3u8')));
      await rangeway.waitFor(/"event":"prefetch"[^\n]*"result":"used"/);
      expect(asked.toSorted()).toEqual([...segments, '/index.m3u8'].toSorted());
      expect(await rangeway.stop('SIGTERM')).toBe(0);
    } finally {
      origin.closeAllConnections();
      origin.close();
      await rm(dir, { recursive: true, force: true });
    }
  });
});
