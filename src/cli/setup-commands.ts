/** Defines the commands that help to set a server up, and their flags. Each command is imported when it runs. */

import { Argument, type Command } from 'commander';
import type { ShellName } from './completion/completion.ts';
import type { DoctorFlags } from './doctor/doctor.ts';
import type { CliIo } from './io.ts';

type End = (code: number) => void;

/** Adds the commands to the program. `serving` is the command whose flags `doctor` has too. */
export function addSetupCommands(program: Command, serving: Command, io: CliIo, end: End): void {
  addDoctor(program, serving, io, end);
  addCompletion(program, io, end);
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
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', installing)
    .action(async (shell: ShellName) => {
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
