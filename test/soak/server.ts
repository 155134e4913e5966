/** The server of the soak: a process with two workers, whose log goes to a file. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type AskAdmin, adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { writeTestCertificate } from '../support/values/tls-certificate.ts';
import type { Kind } from './content.ts';

/** The sizes of the store, in bytes: about a third of all files fits, so that entries are evicted all the time. */
export const storeBytes = 24_000_000;
const memoryBytes = 8_000_000;

/** Time in which a process that was told to end has to end, before it is killed. */
const patienceMs = 60_000;

/** A started server. */
export interface SoakServer extends AsyncDisposable {
  readonly pid: number;
  readonly plainUrl: string;
  readonly tlsUrl: string;
  readonly admin: AskAdmin;
  readonly logFile: string;
  /** Whether the supervisor runs. */
  isRunning(): boolean;
  /** Returns the process ids of the workers that serve. */
  workers(): Promise<readonly number[]>;
  /** Writes a configuration that differs from the present one in a field of responses, to be reloaded. */
  rewriteConfig(): Promise<void>;
  /** Ends the server, and returns its exit code; null where a signal ended it. */
  stop(): Promise<number | null>;
}

/** Starts the server, with a store in `storeDir` and everything else in `dir`. */
export async function startSoakServer(
  dir: string,
  storeDir: string,
  originUrls: ReadonlyMap<Kind, string>,
): Promise<SoakServer> {
  const configFile = join(dir, 'rangeway.json');
  const certificates = [await writeTestCertificate(dir)];
  let revision = 0;
  const writeConfig = (): Promise<void> => {
    const config = {
      listen: ['127.0.0.1:0', { address: '127.0.0.1:0', tls: { certificates }, http2: true }],
      workers: 2,
      store: { dir: storeDir, maxSizeBytes: storeBytes, memoryBytes },
      admin: adminConfig,
      routes: [...originUrls].map(([kind, url]) => ({
        name: kind,
        match: { pathPrefix: `/${kind}/` },
        origin: url,
        fields: { toClient: { set: { 'X-Revision': String(revision) } } },
      })),
    };
    return writeFile(configFile, JSON.stringify(config));
  };
  await writeConfig();
  const logFile = join(dir, 'rangeway.log');
  // The log of an earlier run would name other ports. The processes append.
  writeFileSync(logFile, '');
  const log = openSync(logFile, 'a');
  const child = spawn(process.execPath, [join(projectDirectory, 'bin/rangeway.js'), '--config', configFile], {
    stdio: ['ignore', log, log],
    env: { ...process.env, ...adminEnvironment },
  });
  closeSync(log);
  // A soak that fails itself leaves no server behind.
  process.once('exit', () => child.kill('SIGKILL'));
  const waitFor = (pattern: RegExp) => waitForLog(child, logFile, pattern);
  const [, plainUrl = '', tlsUrl = ''] = await waitFor(/ready on (http:[^\s",]+) and (https:[^\s",]+),/);
  const ask = await findAdmin({ waitFor });
  // A server that is gone is a finding about the server, not a failure of the soak.
  const admin: AskAdmin = (...request) =>
    ask(...request).catch((error: unknown) => ({ status: 0, text: String(error), json: undefined }));
  return {
    pid: child.pid ?? 0,
    plainUrl,
    tlsUrl,
    admin,
    logFile,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    async workers() {
      const { json } = await admin('GET', '/api/v1/status');
      const workers = (json?.workers ?? []) as readonly { readonly pid: number; readonly state: string }[];
      return workers.filter(({ state }) => state === 'serving').map(({ pid }) => pid);
    },
    rewriteConfig() {
      revision += 1;
      return writeConfig();
    },
    stop: () => end(child),
    async [Symbol.asyncDispose]() {
      await end(child);
    },
  };
}

async function waitForLog(child: ChildProcess, logFile: string, pattern: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const text = readFileSync(logFile, 'utf8');
    const match = pattern.exec(text);
    if (match !== null) return match;
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`Rangeway ended at its start:\n${text}`);
    await delay(50);
  }
}

async function end(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const impatience = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  await ended;
  clearTimeout(impatience);
  return child.exitCode;
}
