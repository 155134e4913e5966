/** A worker as a process: forked, spoken to, ended. */

import { type ChildProcess, fork } from 'node:child_process';
import type { SupervisorCalls, WorkerCalls } from './calls.ts';
import { type Calls, type ChannelEnd, openChannel, type Remote } from './channel.ts';

/** How a process has ended. */
export type Ending =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** It never was one. */
  | { readonly kind: 'unstarted'; readonly message: string };

/** A worker that runs, or is about to. */
export interface WorkerProcess {
  readonly pid: number;
  readonly remote: Remote<WorkerCalls>;
  /** Resolves when nothing can be asked of it any more, which may be before it has ended. */
  readonly gone: Promise<void>;
  /** Resolves when there is no such process any more. */
  readonly ended: Promise<Ending>;
  /** Ends it at once, whatever it does. */
  kill(): void;
}

/** Starts a worker that may ask for these. */
export type ForkWorker = (calls: SupervisorCalls) => WorkerProcess;

/** Forks a program of Node with these arguments, which opens its channel by `openChannel`. */
export function forkWorker(program: string, args: readonly string[], calls: SupervisorCalls): WorkerProcess {
  let child: ChildProcess;
  try {
    child = fork(program, args, {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // What observes the supervisor observes its workers; only one process can have the port of a debugger.
      execArgv: process.execArgv.filter((option) => !option.startsWith('--inspect')),
    });
  } catch (error) {
    return unstarted((error as Error).message);
  }
  const { remote, gone, leave } = openChannel<WorkerCalls>(child as ChannelEnd, calls as unknown as Calls);
  const ended = endOf(child);
  // Who was never started has no channel that could end.
  void ended.then(leave);
  return { pid: child.pid ?? 0, remote, gone, ended, kill: () => void child.kill('SIGKILL') };
}

/** What the system could not even begin with, for want of memory for example. */
function unstarted(message: string): WorkerProcess {
  const ended = Promise.resolve<Ending>({ kind: 'unstarted', message });
  const nobody: ChannelEnd = { on: () => undefined, once: () => undefined };
  const { remote, gone, leave } = openChannel<WorkerCalls>(nobody, {});
  leave();
  return { pid: 0, remote, gone, ended, kill: () => undefined };
}

function endOf(child: ChildProcess): Promise<Ending> {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  child.once('exit', (code, signal) => {
    resolve(signal === null ? { kind: 'exit', code: code ?? 0 } : { kind: 'signal', signal });
  });
  child.on('error', ({ message }) => {
    // Errors of a running child are those of sending, which the end of the channel tells of.
    if (child.pid === undefined) resolve({ kind: 'unstarted', message });
  });
  return promise;
}

/** An end in words that follow the name of who has ended. */
export function describeEnding(ending: Ending): string {
  switch (ending.kind) {
    case 'exit':
      return `ended with exit code ${ending.code}`;
    case 'signal':
      return `was ended by ${ending.signal}`;
    case 'unstarted':
      return `could not be started: ${ending.message}`;
  }
}
