/** `rangeway explain`: asks a running Rangeway what would become of a request, and prints what it says. */

import { exitCode } from '../exit-code.ts';
import type { CliIo } from '../io.ts';
import { askForExplanation } from './ask.ts';
import type { ExplainFlags } from './explain-flags.ts';
import { formatExplanation } from './explanation-text.ts';

/** Explains a request; resolves with the exit code. */
export async function explain(url: URL, flags: ExplainFlags, io: CliIo): Promise<number> {
  const { header = [], range, request = 'GET', insecure = false } = flags;
  const fields = range === undefined ? header : [...header, ['Range', range] as const];
  const reply = await askForExplanation({ url, method: request, fields, insecure });
  switch (reply.kind) {
    case 'explained':
      io.stdout.write(flags.json === true ? reply.text : formatExplanation(reply.explanation));
      return exitCode.done;
    case 'refused':
      io.stderr.write(`rangeway: the request would be refused: ${reply.status} ${reply.detail}\n`);
      return exitCode.failed;
    case 'failed':
      io.stderr.write(`rangeway: ${reply.detail}\n`);
      return exitCode.failed;
  }
}
