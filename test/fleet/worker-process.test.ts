import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ChannelGone } from '../../src/fleet/channel.ts';
import { describeEnding, forkWorker, type WorkerProcess } from '../../src/fleet/worker-slot.ts';

const channel = fileURLToPath(new URL('../../src/fleet/channel.ts', import.meta.url));

/** A worker that reports how it was started, exits with the given code, and asks for a lease. */
const script = `
import { openChannel } from ${JSON.stringify(channel)};
const { remote } = openChannel(process, {
  beat: () => ({ options: process.execArgv, args: process.argv.slice(2) }),
  stop: (code) => process.exit(code),
  applyInvalidation: (news) => remote.acquireLease(news.key),
});
`;

let dir: string;
let program: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-worker-process-'));
  program = join(dir, 'worker.mjs');
  await writeFile(program, script);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const supervisor = {
  acquireLease: async (key: string) => ({ kind: 'theirs' as const, instance: key, socket: '/s' }),
  releaseLease: () => undefined,
  drained: async () => undefined,
  announce: async () => undefined,
};

async function withWorker(use: (worker: WorkerProcess) => Promise<void>): Promise<void> {
  const worker = forkWorker([program, 'worker'], supervisor);
  try {
    await use(worker);
  } finally {
    worker.kill();
    await worker.ended;
  }
}

describe('a worker as a process', () => {
  it('gets the Node options of this process except those of a debugger, and can call back', async () => {
    const before = process.execArgv;
    process.execArgv = [...before, '--conditions=observed', '--inspect-port=0'];
    try {
      await withWorker(async ({ remote }) => {
        const { options, args } = (await remote.beat()) as unknown as { options: string[]; args: string[] };
        expect(options).toContain('--conditions=observed');
        expect(options).not.toContain('--inspect-port=0');
        expect(args).toEqual(['worker']);
        const news = { key: 'k' } as never;
        expect(await remote.applyInvalidation(news)).toEqual({ kind: 'theirs', instance: 'k', socket: '/s' });
      });
    } finally {
      process.execArgv = before;
    }
  });

  it('reports how it has ended, and rejects unanswered calls', async () => {
    await withWorker(async ({ remote, ended, gone }) => {
      await remote.beat();
      await expect(remote.stop(7)).rejects.toBeInstanceOf(ChannelGone);
      expect(await ended).toEqual({ kind: 'exit', code: 7 });
      await gone;
    });
    await withWorker(async ({ kill, ended }) => {
      kill();
      expect(await ended).toEqual({ kind: 'signal', signal: 'SIGKILL' });
    });
  });

  it('that the system cannot start has ended, and is gone', async () => {
    const { execPath } = process;
    process.execPath = join(dir, 'no-such-program');
    try {
      const { remote, ended, pid } = forkWorker([program], supervisor);
      expect(pid).toBe(0);
      expect(await ended).toMatchObject({ kind: 'unstarted', message: expect.stringContaining('ENOENT') });
      await expect(remote.beat()).rejects.toBeInstanceOf(ChannelGone);
    } finally {
      process.execPath = execPath;
    }
  });
});

describe('the description of an end', () => {
  it.each([
    { ending: { kind: 'exit', code: 3 }, want: 'ended with exit code 3' },
    { ending: { kind: 'signal', signal: 'SIGSEGV' }, want: 'was ended by SIGSEGV' },
    { ending: { kind: 'unstarted', message: 'spawn EAGAIN' }, want: 'could not be started: spawn EAGAIN' },
  ] as const)('$want', ({ ending, want }) => {
    expect(describeEnding(ending)).toBe(want);
  });
});
