/** `rangeway explain`: asks a running Rangeway what would become of a request, and prints what it says. */

import type { ExplainReply } from '../../admin/operations.ts';
import { askAdmin, failWith } from '../admin/ask-admin.ts';
import { chooseAdminServer } from '../admin/choose-server.ts';
import { exitCode } from '../exit-code.ts';
import { fail } from '../failure.ts';
import type { CliIo } from '../io.ts';
import { printable, printableJson } from '../text-sections.ts';
import type { ExplainFlags } from './explain-flags.ts';
import { formatExplanation } from './explanation-text.ts';

const TIMEOUT_MS = 30_000;

/** The form that is known here. */
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
  const told = reply.value as ExplainReply;
  if (told.kind === 'answered') {
    const how = told.status < 400 ? 'would be answered without the cache' : 'would be refused';
    return fail(io, printable(`the request ${how}: ${told.status} ${told.detail}`), exitCode.failed);
  }
  const { explanation } = told;
  const version: number = explanation.version;
  if (version !== KNOWN_VERSION) {
    const reason = `the answer is of form ${version}, and this rangeway knows form ${KNOWN_VERSION} only`;
    return fail(io, reason, exitCode.failed);
  }
  io.stdout.write(json ? `${printableJson(explanation)}\n` : formatExplanation(explanation));
  return exitCode.done;
}
