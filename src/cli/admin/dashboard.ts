/** `rangeway dashboard`: prints a link that logs a browser in to the dashboard of a running server. */

import { spawn } from 'node:child_process';
import { formatDashboardLink } from '../../admin/sessions.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { printableJson, replaceTerminalControls } from '../text-sections.ts';
import { askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import type { AdminFlags } from './flags.ts';

/** The flags of the command. */
export interface DashboardFlags extends AdminFlags {
  readonly open?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** Opens a link in the browser of the system. Resolves with whether it could be started. */
export type OpenBrowser = (link: string) => Promise<boolean>;

const TIMEOUT_MS = 10_000;

/** Prints the link; resolves with the exit code. */
export async function dashboard(flags: DashboardFlags, io: CliIo, openBrowser: OpenBrowser): Promise<number> {
  const server = await chooseAdminServer(flags, io);
  if (server.kind === 'none') return server.exitCode;
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/session-codes',
    body: {},
    wants: 'code',
    timeoutMs: TIMEOUT_MS,
  });
  if (reply.kind !== 'answered') return failWith(io, reply);
  const { code, expiresAt, url } = reply.value as { code: string; expiresAt: number; url?: string };
  // The listener that was asked by its URL can be reached by it, which may be that of a forwarder.
  const base = server.place.kind === 'url' ? server.place.url.href : url;
  if (base === undefined) {
    const reason =
      'browsers cannot reach this server: its admin listener is on a Unix socket only. Start it with --admin 9090 to have the dashboard on http://127.0.0.1:9090/';
    return fail(io, reason, exitCode.failed);
  }
  const link = formatDashboardLink(base, code);
  if (flags.json === true) io.stdout.write(`${printableJson({ link, expiresAt })}\n`);
  else io.stdout.write(replaceTerminalControls(`${link}\n`));
  if (flags.open === true && !(await openBrowser(link))) {
    return fail(io, 'no browser could be started: open the link yourself', exitCode.failed);
  }
  if (flags.json !== true) io.stderr.write('rangeway: the link logs in once, within 5 minutes\n');
  return exitCode.done;
}

/** Returns the program that opens a link on a platform, and its arguments before the link. */
export function browserCommand(platform: NodeJS.Platform): readonly [program: string, ...args: string[]] {
  if (platform === 'darwin') return ['open'];
  // `start` takes a first argument in quotation marks as the title of a window.
  if (platform === 'win32') return ['cmd', '/c', 'start', '""'];
  return ['xdg-open'];
}

/** Opens a link in the browser of this system. */
export const openSystemBrowser: OpenBrowser = (link) => {
  const [program, ...args] = browserCommand(process.platform);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const child = spawn(program, [...args, link], { detached: true, stdio: 'ignore' });
  child.once('error', () => resolve(false));
  child.once('spawn', () => {
    child.unref();
    resolve(true);
  });
  return promise;
};
