/** Runs the commands that administer a server against an admin listener with fake operations. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Guesses } from '../../../src/admin/access.ts';
import { openAdminListener } from '../../../src/admin/admin-listener.ts';
import type { Operations } from '../../../src/admin/operations.ts';
import type { Dashboard } from '../../../src/admin/page.ts';
import { run } from '../../../src/cli/main.ts';
import { openSocket } from '../../../src/listener/accept/bind.ts';
import { createAdminGround } from '../../../src/setup/admin.ts';
import { createFakeCliIo } from './fake-cli-io.ts';
import { fakeOperations, type OperationCall } from './fake-operations.ts';

export const rightToken = 'the-right-token-of-20';

/** The exit code and the output of a command. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** An admin listener that commands can talk to. */
export interface CommandGround extends AsyncDisposable {
  /** The address, in the syntax of `--admin`. */
  readonly place: string;
  readonly calls: OperationCall[];
  /** Where browsers find the dashboard: nowhere by default. */
  readonly dashboard: Dashboard;
  /** Runs a command with the place and the token in its environment. */
  run(...argv: readonly string[]): Promise<Outcome>;
}

/** Runs a command line in an environment. */
export async function runCommand(
  argv: readonly string[],
  env: Record<string, string | undefined> = {},
): Promise<Outcome> {
  const io = createFakeCliIo(env);
  const code = await run(argv, io);
  return { code, ...io.written };
}

/** Opens an admin listener: on a port with a token, or on a Unix socket without one. */
export async function openCommandGround(
  overrides: Partial<Operations> = {},
  reach: 'machine' | 'owner' = 'machine',
): Promise<CommandGround> {
  await using resources = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-commands-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  const { operations, calls } = fakeOperations(overrides);
  const path = join(dir, 'admin.sock');
  const shared = createAdminGround(operations, () => undefined);
  const listener = await openAdminListener({
    socket: await openSocket(
      reach === 'owner' ? { kind: 'unix', path, mode: 0o600 } : { kind: 'tcp', host: '127.0.0.1', port: 0 },
      'admin',
    ),
    ...shared,
    now: () => 0,
    rules: { reach, hosts: new Set() },
    isToken: reach === 'owner' ? undefined : (text) => text === rightToken,
    guesses: new Guesses(() => 0),
  });
  resources.defer(() => listener.close(0).then(() => undefined));
  const place = reach === 'owner' ? `unix:${path}` : `127.0.0.1:${listener.address.port}`;
  const env = { RANGEWAY_ADMIN: place, ...(reach === 'owner' ? {} : { RANGEWAY_ADMIN_TOKEN: rightToken }) };
  const opened = resources.move();
  return {
    place,
    calls,
    dashboard: shared.dashboard,
    run: (...argv) => runCommand(argv, { ...env }),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
