/** `rangeway health`: asks a running Rangeway whether it serves. For health checks of containers and scripts. */

import { type CliIo, exitCode, fail } from '../io.ts';
import { printableJson, replaceTerminalControls } from '../text-sections.ts';
import { askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import type { AdminFlags } from './flags.ts';

/** Shorter than the usual time limit of a container's health check, so that the reason is printed. */
const TIMEOUT_MS = 5_000;

/** The flags of the command. */
export interface HealthFlags extends AdminFlags {
  readonly json?: boolean | undefined;
}

/** Asks for readiness; resolves with the exit code: 0 while the server serves. */
export async function health(flags: HealthFlags, io: CliIo): Promise<number> {
  const server = await chooseAdminServer(flags, io);
  // A health check of a container must not end with another code than 0 and 1.
  if (server.kind === 'none') return exitCode.failed;
  const question = {
    method: 'GET',
    path: '/readyz',
    wants: 'isReady',
    otherStatus: 503,
    timeoutMs: TIMEOUT_MS,
  } as const;
  const reply = await askAdmin(server, question);
  if (reply.kind !== 'answered') return failWith(io, reply);
  const { isReady, reason } = reply.value as { readonly isReady: unknown; readonly reason?: unknown };
  const why = isReady === true ? undefined : typeof reason === 'string' ? reason : 'it does not say why';
  if (flags.json === true) io.stdout.write(`${printableJson({ isReady: why === undefined, reason: why })}\n`);
  else if (why === undefined) io.stdout.write('ready\n');
  else return fail(io, replaceTerminalControls(`not ready: ${why}`), exitCode.failed);
  return why === undefined ? exitCode.done : exitCode.failed;
}
