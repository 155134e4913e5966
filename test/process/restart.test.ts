import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { RawClient, type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { openScriptedOrigin, type Play, type ScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { type RangewayProcess, startProxy, startRangeway } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const root = await mkdtemp(join(tmpdir(), 'rangeway-restart-'));
afterAll(() => rm(root, { recursive: true, force: true }));

/** Sizes of bodies: several blocks of 256 KiB, and one small enough to be kept in the index. */
const sizes = [1_300_001, 1000];

type Proxy = RangewayProcess & { readonly url: string };

const startOn = (origin: string, dir: string): Promise<Proxy> =>
  startProxy(origin, ['--dir', dir, '--log-level', 'debug']);

const newDirectory = (): Promise<string> => mkdtemp(join(root, 'store-'));

/** Requests the file of that size on a new connection. The Host is always the same, and so is the key. */
async function ask(proxy: Proxy, sizeBytes: number, range?: string): Promise<RawResponse> {
  await using client = await RawClient.open(Number(new URL(proxy.url).port));
  const rangeLine = range === undefined ? '' : `Range: bytes=${range}\r\n`;
  return await client.exchange(`GET /${sizeBytes} HTTP/1.1\r\nHost: files.example\r\n${rangeLine}\r\n`);
}

/** Opens an origin whose path is the size of its body: `/1000` has 1000 bytes that are fresh for an hour. */
function openFreshOrigin(): Promise<ScriptedOrigin> {
  const play: Play = ({ request, send }) => {
    const sizeBytes = Number(request.target.slice(1));
    return send(Buffer.concat([head(sizeBytes), patternBytes(0, sizeBytes)]));
  };
  return openScriptedOrigin(play);
}

function head(sizeBytes: number): Buffer {
  const lines = [`Content-Length: ${sizeBytes}`, 'Cache-Control: max-age=3600', `ETag: "${sizeBytes}"`];
  return Buffer.from(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\n\r\n`);
}

describe('a disk store after a restart', () => {
  const ends: readonly (readonly [signal: 'SIGTERM' | 'SIGKILL', code: number | null])[] = [
    ['SIGTERM', 0],
    ['SIGKILL', null],
  ];

  it.each(ends)('by %s serves its entries, although the origin is gone', async (signal, code) => {
    const dir = await newDirectory();
    const origin = await openFreshOrigin();
    const { url } = origin;
    try {
      await using first = await startOn(url, dir);
      for (const sizeBytes of sizes) {
        expect((await ask(first, sizeBytes)).body.equals(patternBytes(0, sizeBytes))).toBe(true);
        await first.waitFor(new RegExp(`"event":"fill".*/${sizeBytes}\\b.*"result":"stored"`));
      }
      expect(await first.stop(signal), first.output()).toBe(code);
    } finally {
      await origin.close();
    }

    await using second = await startOn(url, dir);
    for (const sizeBytes of sizes) await expectHits(second, sizeBytes);
    expect(origin.requests).toHaveLength(sizes.length);
    expect(await second.stop('SIGTERM'), second.output()).toBe(0);
  });

  it('by SIGKILL in the middle of a fill resumes it, although the origin sends the whole body again', async () => {
    const dir = await newDirectory();
    const [sizeBytes = 0] = sizes;
    const half = Math.floor(sizeBytes / 2);
    await using origin = await openScriptedOrigin(
      ({ send }) => send(Buffer.concat([head(sizeBytes), patternBytes(0, half)])),
      ({ send }) => send(Buffer.concat([head(sizeBytes), patternBytes(0, sizeBytes)])),
    );
    await using first = await startOn(origin.url, dir);
    await using client = await RawClient.open(Number(new URL(first.url).port));
    client.send(`GET /${sizeBytes} HTTP/1.1\r\nHost: files.example\r\n\r\n`);
    await client.head();
    expect((await client.take(half)).equals(patternBytes(0, half))).toBe(true);
    await first.stop('SIGKILL');

    await using second = await startOn(origin.url, dir);
    const whole = await ask(second, sizeBytes);
    expect(rawValues(whole, 'cache-status').join()).toContain('fwd=partial');
    expect(whole.body.equals(patternBytes(0, sizeBytes))).toBe(true);
    await second.waitFor(/"event":"fill".*"result":"stored"/);
    await expectHits(second, sizeBytes);
  });
});

/** Checks that every range is a hit with the right bytes. */
async function expectHits(proxy: Proxy, sizeBytes: number): Promise<void> {
  const middle = Math.floor(sizeBytes / 2);
  const ranges: readonly (readonly [range: string, start: number, end: number])[] = [
    ['0-0', 0, 1],
    [`${middle - 300}-${middle + 299}`, middle - 300, middle + 300],
    ['-7', sizeBytes - 7, sizeBytes],
    ['1-', 1, sizeBytes],
  ];
  for (const [range, start, end] of ranges) {
    const response = await ask(proxy, sizeBytes, range);
    const name = `${range} of ${sizeBytes}`;
    expect(response.status, name).toBe(206);
    expect(rawValues(response, 'content-range'), name).toEqual([`bytes ${start}-${end - 1}/${sizeBytes}`]);
    expect(rawValues(response, 'cache-status').join(), name).toMatch(/; hit/);
    expect(response.body.equals(patternBytes(start, end)), name).toBe(true);
  }
}

describe('a directory that cannot be used: one line, and exit 1', () => {
  const refusal = async (dir: string): Promise<[code: number | null, output: string]> => {
    await using refused = startRangeway(['http://127.0.0.1:9', '--listen', '127.0.0.1:0', '--dir', dir]);
    return [await refused.ended(), refused.output()];
  };

  it('used by another process, which goes on', async () => {
    const dir = await newDirectory();
    await using origin = await openFreshOrigin();
    await using first = await startOn(origin.url, dir);
    const [code, output] = await refusal(dir);
    expect(code).toBe(1);
    expect(output).toMatch(/^rangeway: [^\n]*\n$/);
    expect(output).toContain(dir);
    expect(output).toContain('in use by another process');
    expect((await ask(first, 1000)).status).toBe(200);
  });

  it('below a regular file', async () => {
    const file = join(root, 'a-file');
    await writeFile(file, '');
    const [code, output] = await refusal(join(file, 'store'));
    expect(code).toBe(1);
    expect(output).toMatch(/^rangeway: [^\n]*\n$/);
    expect(output).toContain(join(file, 'store'));
  });
});
