/** Stands in for the service manager that has started a process: gets what it is told (sd_notify(3)). */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Opens a socket of the kind that a service manager has, which Node cannot, and prints each message as JSON. */
const receiver = `
import json, socket, sys
name = sys.argv[1]
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind('\\0' + name[1:] if name.startswith('@') else name)
print(json.dumps('open'), flush=True)
while True:
    print(json.dumps(receiver.recv(65536).decode()), flush=True)
`;

/** What was told, and by what environment a process finds whom to tell. */
export interface NotifySocket extends AsyncDisposable {
  readonly environment: NodeJS.ProcessEnv;
  /** The messages so far: the assignments of each. */
  messages(): Promise<readonly (readonly string[])[]>;
}

/** A real socket: a path, or a name in the abstract space, with `@` before it. Needs python3 and systemd-notify. */
export async function openNotifySocket(name: string): Promise<NotifySocket> {
  const child: ChildProcess = spawn('python3', ['-c', receiver, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const messages: string[][] = [];
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  await once(lines, 'line');
  lines.on('line', (line) => {
    const assignments = (JSON.parse(line) as string).split('\n').filter((each) => each !== '');
    // A barrier is between systemd-notify and the manager.
    if (!assignments.includes('BARRIER=1')) messages.push(assignments);
  });
  return {
    environment: { NOTIFY_SOCKET: name },
    messages: async () => messages,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}

/** No socket, but a program `systemd-notify` in this directory that writes down what it is to tell. Needs nothing. */
export async function openNotifyFile(dir: string): Promise<NotifySocket> {
  const file = join(dir, 'told');
  const program = join(dir, 'systemd-notify');
  await writeFile(file, '');
  // In one write: others may be at it.
  await writeFile(
    program,
    `#!/bin/sh\nline=$(printf '%s\\t' "$NOTIFY_SOCKET" "$@")\nprintf '%s\\n' "$line" >>'${file}'\n`,
  );
  await chmod(program, 0o755);
  const { PATH = '' } = process.env;
  return {
    environment: { NOTIFY_SOCKET: join(dir, 'notify'), PATH: dir + delimiter + PATH },
    async messages() {
      const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
      return lines.map((line) => {
        const [socket, ...assignments] = line.split('\t').filter((each) => each !== '');
        if (socket !== join(dir, 'notify')) throw new Error(`told to ${socket}`);
        return assignments;
      });
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
}
