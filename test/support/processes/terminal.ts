/** Runs the executable on a pseudo-terminal, which python3 makes, and types into it. */

import { join } from 'node:path';
import { runProgram } from './programs.ts';
import { projectDirectory } from './rangeway-process.ts';

/** Waits until the terminal shows a text, and types another one. `\u0003` is Ctrl-C, `\u0004` is Ctrl-D. */
export type TerminalStep = readonly [shown: string, typed: string];

/** What a terminal has shown, and how the program ended: its exit code, or the negative number of a signal. */
export interface TerminalRun {
  readonly code: number;
  readonly shown: string;
}

/** Runs `rangeway` with these arguments in a directory, with changes to the environment. Line ends are as in a file. */
export async function runOnTerminal(
  args: readonly string[],
  steps: readonly TerminalStep[],
  dir: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<TerminalRun> {
  const command = [process.execPath, join(projectDirectory, 'bin/rangeway.js'), ...args];
  const given = JSON.stringify({ command, steps, environment: { TERM: 'xterm-256color', ...environment } });
  const { code, stdout, stderr } = await runProgram('python3', ['-c', program, given], dir);
  if (code !== 0) throw new Error(`python3 ended with ${code}: ${stderr}`);
  const { status, shown } = JSON.parse(stdout.toString()) as { status: number; shown: string };
  return { code: status, shown: shown.replaceAll('\r\n', '\n') };
}

const program = `
import json, os, pty, sys
given = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    # Node and the commands decide about colours by these; the terminal alone is to decide.
    for name in ("CI", "FORCE_COLOR", "NO_COLOR"):
        os.environ.pop(name, None)
    os.environ.update(given["environment"])
    os.execv(given["command"][0], given["command"])
shown, seen = b"", 0
steps = list(given["steps"])
while True:
    try:
        chunk = os.read(terminal, 4096)
    except OSError:
        break
    if not chunk:
        break
    shown += chunk
    while steps:
        at = shown.find(steps[0][0].encode(), seen)
        if at == -1:
            break
        seen = at + len(steps[0][0].encode())
        os.write(terminal, steps.pop(0)[1].encode())
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if steps:
    sys.exit("not shown: " + steps[0][0] + "; shown: " + shown.decode())
json.dump({"status": status, "shown": shown.decode()}, sys.stdout)
`;
