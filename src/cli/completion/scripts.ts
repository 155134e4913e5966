/** Writes completion scripts for bash, zsh and fish. */

import type { CompletedCommand, CompletedOption, CompletedProgram, Completion } from './completed-program.ts';

/** The command whose options and arguments a command line without a command has. */
const defaultCommand = 'serve';

/** Returns the script for bash 3.2 and newer, which needs no other package. */
export function bashScript(program: CompletedProgram): string {
  const name = functionName(program);
  const commands = [...withProgramOptions(program)];
  const valued = commands.flatMap((command) =>
    command.options.flatMap(({ names, value }) =>
      value === undefined
        ? []
        : [
            `      ${names.map((each) => quote(`${command.name} ${each}`)).join('|')}) expected=${quote(code(value))} ;;`,
          ],
    ),
  );
  const options = commands.map(
    ({ name: command, options: each }) =>
      `        ${command}) words=${quote(each.flatMap(({ names }) => names).join(' '))} ;;`,
  );
  const args = commands.flatMap((command) =>
    command.args.map((value, at) => {
      const isLast = at === command.args.length - 1;
      const pattern = `${quote(`${command.name} `)}${command.isVariadic && isLast ? '*' : at}`;
      return `        ${pattern}) expected=${quote(code(value))} ;;`;
    }),
  );
  return `# Completion of ${program.name} for bash. Printed by: ${program.name} completion bash
${name}() {
  local word="\${COMP_WORDS[COMP_CWORD]}" each command='' expected='' words='' count=0 at
  local IFS=$' \\t\\n'
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    each="\${COMP_WORDS[at]}"
    # bash splits --option=value and host:port into three words.
    case "$each" in
      '=') continue ;;
      ':')
        at=$((at + 1))
        continue
        ;;
    esac
    if [ -n "$expected" ]; then
      expected=''
      continue
    fi
    case "\${command:-${defaultCommand}} $each" in
${valued.join('\n')}
      *' '-*) ;;
      *)
        case "$command $count $each" in
${commands.map((command) => `          ' 0 ${command.name}'`).join('|\\\n')}) command="$each" ;;
          *) count=$((count + 1)) ;;
        esac
        ;;
    esac
  done
  if [ "$word" = '=' ]; then word=''; fi
  if [ -z "$expected" ]; then
    case "$word" in
    -*)
      expected='words'
      case "\${command:-${defaultCommand}}" in
${options.join('\n')}
      esac
      ;;
    *)
      case "$command $count" in
        ' 0') expected=${quote(`words ${program.commands.map((command) => command.name).join(' ')}`)} ;;
${args.join('\n')}
      esac
      ;;
    esac
  fi
  case "$expected" in
    file | directory)
      if [ "$expected" = file ]; then at=-f; else at=-d; fi
      IFS=$'\\n'
      COMPREPLY=($(compgen "$at" -- "$word"))
      compopt -o filenames 2>/dev/null
      ;;
    words*) COMPREPLY=($(compgen -W "$words \${expected#words}" -- "$word")) ;;
  esac
  return 0
}
complete -F ${name} ${program.name}
`;
}

/** Returns the script for zsh, to be evaluated or to be the file of a function in `$fpath`. */
export function zshScript(program: CompletedProgram): string {
  const name = functionName(program);
  const described = program.commands.map((command) => `    ${quote(`${command.name}:${command.description}`)}`);
  const cases = withProgramOptions(program).map(
    (command) => `        ${command.name === defaultCommand ? '*' : command.name})
          _arguments \\
${[...zshOptions(command.options), ...zshArguments(command)].map((spec) => `            ${spec}`).join(' \\\n')}
          ;;`,
  );
  // The default case has to be the last one.
  const ordered = [...cases.filter((text) => !text.trimStart().startsWith('*')), ...cases].filter(
    (text, at, all) => all.indexOf(text) === at,
  );
  return `#compdef ${program.name}
# Completion of ${program.name} for zsh. Printed by: ${program.name} completion zsh
${name}() {
  local curcontext="$curcontext" state line
  typeset -A opt_args
  local -a commands
  commands=(
${described.join('\n')}
  )
  _arguments -C \\
${zshOptions(program.options)
  .map((spec) => `    ${spec} \\`)
  .join('\n')}
    '1:command:->command' \\
    '*::argument:->argument'
  case $state in
    command) _describe -t commands command commands ;;
    argument)
      case $words[1] in
${ordered.join('\n')}
      esac
      ;;
  esac
}
if [ "$funcstack[1]" = ${name} ]; then
  ${name} "$@"
else
  compdef ${name} ${program.name}
fi
`;
}

function zshOptions(options: readonly CompletedOption[]): string[] {
  return options.flatMap(({ names, description, value, isRepeatable }) => {
    const excluded = isRepeatable ? '*' : `(${names.join(' ')})`;
    const rest = `[${escaped(description, /[\\\]]/g)}]${value === undefined ? '' : `:${zshValue(value)}`}`;
    return names.map((name) =>
      quote(`${excluded}${name}${value !== undefined && name.startsWith('--') ? '=' : ''}${rest}`),
    );
  });
}

function zshArguments({ name, args, isVariadic }: CompletedCommand): string[] {
  return args.map((value, at) => {
    // The word before the arguments is the command, or for the default command its first argument, which counts.
    const position = name === defaultCommand ? '*' : String(at + 1);
    return quote(`${isVariadic && at === args.length - 1 ? '*' : position}:${zshValue(value)}`);
  });
}

/** Returns the message and the action of a value. */
function zshValue(value: Completion): string {
  switch (value.kind) {
    case 'file':
      return 'file:_files';
    case 'directory':
      return 'directory:_files -/';
    case 'words':
      return `value:(${value.words.join(' ')})`;
    case 'text':
      return `${escaped(value.name, /[\\:]/g)}: `;
  }
}

/** Returns the script for fish. */
export function fishScript(program: CompletedProgram): string {
  const name = functionName(program);
  const all = withProgramOptions(program);
  const valued = new Set(
    all.flatMap(({ options }) => options.filter(({ value }) => value !== undefined)).flatMap(({ names }) => names),
  );
  const lines = all.flatMap((command) => {
    const condition = `-n ${quote(`${name}_is ${command.name}`)}`;
    return [
      ...command.options.map((option) => `complete -c ${program.name} ${condition} ${fishOption(option)}`),
      ...command.args.flatMap((value) =>
        value.kind === 'text' ? [] : [`complete -c ${program.name} ${condition} ${fishValue(value)}`],
      ),
    ];
  });
  const commands = program.commands.map(
    (command) => `complete -c ${program.name} -n '${name}_is' -a ${command.name} -d ${fishQuote(command.description)}`,
  );
  return `# Completion of ${program.name} for fish. Printed by: ${program.name} completion fish
# Whether the command line has this command; without an argument: whether it has neither a command nor an argument yet.
function ${name}_is
    set -l command ''
    set -l skips 0
    for word in (commandline -opc)[2..-1]
        if test $skips = 1
            set skips 0
        else if contains -- $word ${[...valued].join(' ')}
            set skips 1
        else if not string match -q -- '-*' $word
            set command $word
            break
        end
    end
    if test (count $argv) = 0
        test -z "$command"
    else if contains -- "$command" ${program.commands.map((command) => command.name).join(' ')}
        test "$command" = $argv[1]
    else
        test $argv[1] = ${defaultCommand}
    end
end
complete -c ${program.name} -f
${[...commands, ...lines].join('\n')}
`;
}

function fishOption({ names, description, value }: CompletedOption): string {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  const values = value === undefined ? [] : [value.kind === 'text' ? '-x' : `-r ${fishValue(value)}`];
  return [...flags, ...values, '-d', fishQuote(description)].join(' ');
}

function fishValue(value: Exclude<Completion, { kind: 'text' }>): string {
  switch (value.kind) {
    case 'file':
      return '-F';
    case 'directory':
      return `-f -a '(__fish_complete_directories)'`;
    case 'words':
      return `-f -a ${fishQuote(value.words.join(' '))}`;
  }
}

/** Gives the default command the options of the program too: a command line without a command has both. */
function withProgramOptions({ options, commands }: CompletedProgram): readonly CompletedCommand[] {
  return commands.map((command) => (command.name === defaultCommand ? { ...command, options } : command));
}

function functionName({ name }: CompletedProgram): string {
  return `_${name.replaceAll(/\W/g, '_')}`;
}

/** Encodes a value for the script of bash. */
function code(value: Completion): string {
  return value.kind === 'words' ? `words ${value.words.join(' ')}` : value.kind;
}

function escaped(text: string, signs: RegExp): string {
  return text.replaceAll(signs, '\\$&');
}

/** Quotes a text for bash and zsh. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Quotes a text for fish. */
function fishQuote(text: string): string {
  return `'${escaped(text, /[\\']/g)}'`;
}
