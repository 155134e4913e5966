/**
 * The manual page rangeway(1), made of the definitions of the commands, so that it says what `--help` says. Its other sections are
 * in this file.
 */

import { type Command, Help } from 'commander';

/** What the definitions of the commands do not say: heading, and paragraphs or terms with their definitions. */
const sections: readonly (readonly [heading: string, body: readonly Paragraph[]])[] = [
  [
    'EXIT STATUS',
    [
      ['0', 'The command has done what it was asked for; a server was stopped by a signal.'],
      ['1', 'It failed. The reason is on standard error.'],
      ['2', 'The command line or the configuration is wrong.'],
    ],
  ],
  [
    'SIGNALS',
    [
      [
        'SIGTERM, SIGINT, SIGQUIT',
        'The server accepts no new connections, lets running requests end (option shutdownGraceSeconds), and exits. A second signal ends it at once.',
      ],
      ['SIGHUP', 'The server reads its configuration, certificates and secrets again.'],
      ['SIGUSR1, SIGUSR2', 'Ignored: no debugger of Node is opened, and nothing ends.'],
    ],
  ],
  [
    'ENVIRONMENT',
    [
      ['RANGEWAY_ADMIN', 'The admin listener of the server that commands are for, as with --admin.'],
      ['RANGEWAY_ADMIN_TOKEN', 'Its token.'],
      ['XDG_CACHE_HOME', 'The directory of stores, in place of ~/.cache.'],
      ['NODE_OPTIONS', 'Options of Node.js, for example --max-old-space-size=4096.'],
    ],
  ],
  [
    'FILES',
    [
      ['/etc/rangeway/rangeway.json', 'The configuration of the service, where Rangeway was installed as one.'],
      ['/var/cache/rangeway', 'The stores of the service.'],
      ['~/.cache/rangeway/HOST-PORT', 'The store of a server that a user has started.'],
    ],
  ],
  [
    'EXAMPLES',
    [
      ['rangeway http://127.0.0.1:3000', 'Serves the origin on port 8080 of this machine.'],
      ['rangeway https://example.org --listen 0.0.0.0:80', 'Serves it to all who can reach this machine.'],
      ['rangeway init', 'Asks a few questions, and writes a configuration file.'],
      ['rangeway doctor -c rangeway.jsonc', 'Checks this machine for it, and says what to change.'],
      ['rangeway purge /film.mp4', 'Removes a stored response.'],
      ['rangeway schema > rangeway.schema.json', 'Writes the description of every option of a configuration file.'],
    ],
  ],
];

/** A text, or a term with its definition. */
type Paragraph = string | readonly [term: string, definition: string];

/** Formats the page, in the man(7) macros of troff. */
export function formatManPage(program: Command, version: string): string {
  const help = new Help();
  const [, description = ''] = /^An? (.*)\.$/.exec(program.description()) ?? [];
  if (description === '') throw new Error('the description of the program is not of the form "A … ."');
  const options = program.createHelp().visibleOptions(program);
  const commands = help.visibleCommands(program).map((command) => formatCommand(command, help));
  return [
    `.TH RANGEWAY 1 "" "Rangeway ${escapeText(version)}" "User Commands"`,
    // No hyphenation and no padding: names of options stay whole.
    '.nh',
    '.ad l',
    ...section('NAME', [`rangeway - ${description}`]),
    ...section('SYNOPSIS', []),
    ...program
      .usage()
      .split('\n')
      .flatMap((line, index) => [
        ...(index === 0 ? [] : ['.br']),
        bold('rangeway', line.trim().replace(/^rangeway /, '')),
      ]),
    ...section('DESCRIPTION', [
      `Rangeway is a ${description}. Videos seek, downloads resume, and tools read parts of large files, even if the origin can only send whole files.`,
      'Without a command it serves an origin, or the routes of a configuration file.',
    ]),
    ...section('OPTIONS', options.map(termOfOption)),
    ...section('COMMANDS', []),
    ...commands.flat(),
    ...sections.flatMap(([heading, body]) => section(heading, body)),
    '',
  ].join('\n');
}

function formatCommand(command: Command, help: Help): string[] {
  const options = help.visibleOptions(command).filter((option) => option.long !== '--help');
  const usage = options.length === 0 ? command.usage().replace(/^\[options\] ?/, '') : command.usage();
  const words = [command.name(), usage].join(' ').trim();
  // The options of serve are those of the program, above.
  const own = command.name() === 'serve' ? [] : options;
  const terms = [...help.visibleArguments(command).map(termOfArgument), ...own.map(termOfOption)];
  return [
    `.SS ${escapeText(`rangeway ${words}`)}`,
    escapeText(`${command.description().replace(/^./, (letter) => letter.toUpperCase())}.`),
    ...terms.flatMap(formatParagraph),
  ];
}

function termOfOption({ flags, description }: { readonly flags: string; readonly description: string }): Paragraph {
  return [flags, `${description}.`];
}

function termOfArgument(argument: { name(): string; readonly description: string }): Paragraph {
  return [`<${argument.name()}>`, `${argument.description}.`];
}

function section(heading: string, body: readonly Paragraph[]): string[] {
  return [`.SH ${heading}`, ...body.flatMap(formatParagraph)];
}

function formatParagraph(paragraph: Paragraph): string[] {
  if (typeof paragraph === 'string') return ['.PP', escapeText(paragraph)];
  const [term, definition] = paragraph;
  return ['.TP', bold(term), escapeText(definition)];
}

function bold(text: string, rest = ''): string {
  return `\\fB${escapeText(text)}\\fR${rest === '' ? '' : ` ${escapeText(rest)}`}`;
}

/** Escapes what troff would interpret. Every `-` is an ASCII one, which readers can copy. */
function escapeText(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/, '\\&$1')
    .replaceAll('~', '\\(ti')
    .replaceAll('^', '\\(ha')
    .replaceAll('`', '\\(ga')
    .replaceAll(
      /[^\x20-\x7e]/g,
      (character) => `\\[u${character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}]`,
    );
}
