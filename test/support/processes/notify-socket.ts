/** Fakes of a service manager that receive the notifications of a process (sd_notify(3)). */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Opens a Unix datagram socket, which Node cannot, and prints each message as JSON. */
const receiver = `
import json, socket, sys
name = sys.argv[1]
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind('\\0' + name[1:] if name.startswith('@') else name)
print(json.dumps('open'), flush=True)
while True:
    print(json.dumps(receiver.recv(65536).decode()), flush=True)
`;

/** A receiver of notifications, and the environment in which a process finds it. */
export interface NotifySocket extends AsyncDisposable {
  readonly environment: NodeJS.ProcessEnv;
  /** Returns the messages so far, each as a list of assignments. */
  messages(): Promise<readonly (readonly string[])[]>;
}

/** Opens a real socket: at a path, or with an abstract name after `@`. Needs python3 and systemd-notify. */
export async function openNotifySocket(name: string): Promise<NotifySocket> {
  const child: ChildProcess = spawn('python3', ['-c', receiver, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const messages: string[][] = [];
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  await once(lines, 'line');
  lines.on('line', (line) => {
    const assignments = (JSON.parse(line) as string).split('\n').filter((each) => each !== '');
    // systemd-notify adds BARRIER=1 for itself.
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

/** Writes a fake `systemd-notify` into a directory, which appends its arguments to a file. Needs no other program. */
export async function openNotifyFile(dir: string): Promise<NotifySocket> {
  const file = join(dir, 'told');
  const program = join(dir, 'systemd-notify');
  await writeFile(file, '');
  // One write per line, as several processes may append at a time.
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
