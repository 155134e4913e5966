/** Defines the commands that help to set a server up, and their flags. Each command is imported when it runs. */

import { randomBytes } from 'node:crypto';
import { Argument, type Command } from 'commander';
import type { ShellName } from './completion/completion.ts';
import type { DoctorFlags } from './doctor/doctor.ts';
import type { InitFlags } from './init/init.ts';
import { type CliIo, exitCode, fail } from './io.ts';

type End = (code: number) => void;

/** Adds the commands to the program. `serving` is the command whose flags `doctor` has too. */
export function addSetupCommands(program: Command, serving: Command, io: CliIo, end: End): void {
  addInit(program, serving, io, end);
  addDoctor(program, serving, io, end);
  addCompletion(program, io, end);
}

/** The flags that `init` has from `serve`. */
const answers = [
  '--listen',
  '--store',
  '--dir',
  '--max-size',
  '--memory',
  '--workers',
  '--admin',
  '--admin-token',
  '--origin-host',
  '--insecure-tls',
];

function addInit(program: Command, serving: Command, io: CliIo, end: End): void {
  const command = program
    .command('init')
    .description('write a configuration file, with what you answer and what the origin can do')
    .argument('[file]', 'the file (default: rangeway.jsonc)')
    .option('--origin <url>', 'the URL of the origin, such as http://127.0.0.1:3000')
    .option('--path <path>', 'the path that the origin is asked for, to see what it can do (default: /)')
    .option('--no-probe', 'do not ask the origin anything');
  for (const option of serving.options.filter(({ long }) => answers.includes(long ?? ''))) command.addOption(option);
  command
    .option('-y, --yes', 'ask nothing: take the flags, and defaults for the rest')
    .option('-f, --force', 'replace the file where it exists')
    .action(async (file: string | undefined, flags: InitFlags) => {
      const { init } = await import('./init/init.ts');
      end(await init(file, flags, io, { input: process.stdin, random: randomBytes, now: Date.now }));
    });
}

function addDoctor(program: Command, serving: Command, io: CliIo, end: End): void {
  const command = program
    .command('doctor')
    .description('check this machine and a configuration, and print what to change')
    .argument('[origin]', 'the URL of the origin, as for serve')
    .option('--json', 'print the findings as JSON');
  for (const option of serving.options) command.addOption(option);
  command.action(async (origin: string | undefined, flags: DoctorFlags) => {
    const { doctor } = await import('./doctor/doctor.ts');
    end(await doctor(origin, flags, io));
  });
}

function addCompletion(program: Command, io: CliIo, end: End): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('[shell]', 'the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', installing)
    .action(async (shell: ShellName | undefined) => {
      if (shell === undefined) {
        const reason = 'say for which shell: bash, zsh or fish. rangeway completion --help tells where the script goes';
        end(fail(io, reason, exitCode.misused));
        return;
      }
      const { printCompletion } = await import('./completion/completion.ts');
      end(printCompletion(program, shell, io));
    });
}

const installing = `
Where the script goes:
  bash  eval "$(rangeway completion bash)" in ~/.bashrc
        or: rangeway completion bash > ~/.local/share/bash-completion/completions/rangeway
  zsh   eval "$(rangeway completion zsh)" in ~/.zshrc, after compinit
        or: rangeway completion zsh > _rangeway, in a directory of $fpath
  fish  rangeway completion fish > ~/.config/fish/completions/rangeway.fish`;
