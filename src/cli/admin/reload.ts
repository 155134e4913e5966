/** `rangeway reload`: makes a running Rangeway read its configuration again. */

import { type CliIo, exitCode } from '../io.ts';
import { printableJson, replaceTerminalControls } from '../text-sections.ts';
import { askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import type { AdminFlags } from './flags.ts';

/** Long, because the reply waits until all workers are ready for the new configuration. */
const TIMEOUT_MS = 120_000;

/** The flags of the command. */
export interface ReloadFlags extends AdminFlags {
  readonly json?: boolean | undefined;
}

/** Reloads the configuration; resolves with the exit code, which is 0 only when the new configuration is in use. */
export async function reload(flags: ReloadFlags, io: CliIo): Promise<number> {
  const server = await chooseAdminServer(flags, io);
  if (server.kind === 'none') return server.exitCode;
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/reload',
    body: {},
    timeoutMs: TIMEOUT_MS,
  });
  switch (reply.kind) {
    case 'answered':
      io.stdout.write(
        flags.json === true ? '{"isReloaded":true}\n' : 'the configuration was read again and is in use\n',
      );
      return exitCode.done;
    case 'refused':
      if (reply.status !== 422) return failWith(io, reply);
      if (flags.json === true) {
        io.stdout.write(`${printableJson({ isReloaded: false, problems: reply.detail.split('\n') })}\n`);
        return exitCode.misused;
      }
      // As `rangeway check` prints problems: one a line, each with its path.
      io.stderr.write(`${replaceTerminalControls(reply.detail)}\n`);
      return exitCode.misused;
    case 'failed':
      return failWith(io, reply);
  }
}
