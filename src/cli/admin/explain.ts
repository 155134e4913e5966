/** `rangeway explain`: asks a running server what it would do with a request, and prints the explanation line by line. */

import type { ExplainReply } from '../../admin/operations.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { printableJson, replaceTerminalControls } from '../text-sections.ts';
import { askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import { formatExplanation } from './explain-text.ts';
import type { ExplainFlags } from './flags.ts';

const TIMEOUT_MS = 30_000;

/** The version of the explanation format that this command can print. */
const KNOWN_VERSION = 1;

/** Explains a request for a URL or a path; resolves with the exit code. */
export async function explain(url: string, flags: ExplainFlags, io: CliIo): Promise<number> {
  const { header = [], range, request = 'GET', client, json = false } = flags;
  const server = await chooseAdminServer(flags, io, [url]);
  if (server.kind === 'none') return server.exitCode;
  const fields = range === undefined ? header : [...header, ['Range', range] as const];
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/explain',
    body: { url, method: request, fields, ...(client === undefined ? {} : { client }) },
    wants: 'kind',
    timeoutMs: TIMEOUT_MS,
  });
  if (reply.kind !== 'answered') return failWith(io, reply);
  const answer = reply.value as ExplainReply;
  if (answer.kind === 'answered') {
    const how = answer.status < 400 ? 'would be answered without the cache' : 'would be refused';
    return fail(io, replaceTerminalControls(`the request ${how}: ${answer.status} ${answer.detail}`), exitCode.failed);
  }
  const { explanation } = answer;
  const version: number = explanation.version;
  if (version !== KNOWN_VERSION) {
    const reason = `the server explains in format ${version}, and this rangeway knows only format ${KNOWN_VERSION}`;
    return fail(io, reason, exitCode.failed);
  }
  io.stdout.write(json ? `${printableJson(explanation)}\n` : formatExplanation(explanation));
  return exitCode.done;
}
