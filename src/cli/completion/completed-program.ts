/** What a shell can complete: the commands of the program, their options, and what can stand in place of a value. */

import { type Command, Help, type Option } from 'commander';

/** What can stand in place of an argument, or of the value of an option. */
export type Completion =
  | { readonly kind: 'file' | 'directory' }
  | { readonly kind: 'words'; readonly words: readonly string[] }
  /** Text that cannot be completed; `name` describes it. */
  | { readonly kind: 'text'; readonly name: string };

/** An option of a command. */
export interface CompletedOption {
  /** Such as `-c` and `--config`. */
  readonly names: readonly string[];
  readonly description: string;
  /** Undefined where it takes no value. */
  readonly value: Completion | undefined;
  readonly isRepeatable: boolean;
}

/** A command with its options and arguments. */
export interface CompletedCommand {
  readonly name: string;
  readonly description: string;
  readonly options: readonly CompletedOption[];
  readonly args: readonly Completion[];
  /** Whether the last argument may be given more than once. */
  readonly isVariadic: boolean;
}

/** The program: what can follow its name, and each command. */
export interface CompletedProgram {
  readonly name: string;
  /** The options before, or without, a command. */
  readonly options: readonly CompletedOption[];
  readonly commands: readonly CompletedCommand[];
}

/** Reads what can be completed from a program. Hidden commands and options are left out. */
export function readProgram(program: Command): CompletedProgram {
  // The help of the program also lists the options of its default command.
  const help = program.createHelp();
  const commands = help.visibleCommands(program);
  const names = commands.map((command) => command.name());
  return {
    name: program.name(),
    options: help.visibleOptions(program).map(readOption),
    commands: commands.map((command) => readCommand(command, names)),
  };
}

function readCommand(command: Command, names: readonly string[]): CompletedCommand {
  const args = command.registeredArguments;
  return {
    name: command.name(),
    description: command.description(),
    options: new Help().visibleOptions(command).map(readOption),
    args: args.map((each) => readValue(each.name(), each.name() === 'command' ? names : each.argChoices)),
    isVariadic: args.at(-1)?.variadic ?? false,
  };
}

function readOption(option: Option): CompletedOption {
  const [, placeholder] = /[<[](.+?)(?:\.\.\.)?[>\]]$/.exec(option.flags) ?? [];
  return {
    names: [option.short, option.long].flatMap((name) => name ?? []),
    description: option.description,
    value: placeholder === undefined ? undefined : readValue(placeholder, option.argChoices),
    isRepeatable: /more than once/.test(option.description),
  };
}

/**
 * Reads from a placeholder what it stands for: `file`, `directory`, `url|file`, or alternatives such as `disk|memory`. Of the last
 * kind, words in lower case stand for themselves. Others, such as `N` and `[host:]port`, are for the user to fill in.
 */
function readValue(placeholder: string, choices: readonly string[] | undefined): Completion {
  if (choices !== undefined) return { kind: 'words', words: choices };
  const alternatives = placeholder.split('|');
  for (const kind of ['file', 'directory'] as const) if (alternatives.includes(kind)) return { kind };
  const words = alternatives.filter((word) => /^[a-z][a-z-]*$/.test(word));
  return alternatives.length > 1 && words.length > 0 ? { kind: 'words', words } : { kind: 'text', name: placeholder };
}
