/** Defines the commands that help to set a server up, and their flags. Each command is imported when it runs. */

import { Argument, type Command } from 'commander';
import type { ShellName } from './completion/completion.ts';
import type { CliIo } from './io.ts';

/** Adds the commands to the program. */
export function addSetupCommands(program: Command, io: CliIo, end: (code: number) => void): void {
  addCompletion(program, io, end);
}

function addCompletion(program: Command, io: CliIo, end: (code: number) => void): void {
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
