/** `rangeway completion`: the scripts in the shells that they are for, and what they are made from. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { afterAll, describe, expect, it } from 'vitest';
import { readProgram } from '../../src/cli/completion/completed-program.ts';
import type { ShellName } from '../../src/cli/completion/completion.ts';
import { run } from '../../src/cli/main.ts';
import { createProgram } from '../../src/cli/program.ts';
import { itWith } from '../support/processes/programs.ts';
import { offeredWords } from '../support/processes/shell-completion.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-completion-test-'));
afterAll(() => rmSync(dir, { recursive: true }));
mkdirSync(join(dir, 'sites'));
mkdirSync(join(dir, 'sites two'));
writeFileSync(join(dir, 'sites.json'), '{}');

async function scriptFor(shell: string) {
  const io = createFakeCliIo();
  const code = await run(['completion', shell], io);
  return { code, ...io.written };
}

const levels = ['debug', 'error', 'info', 'silent', 'trace', 'warn'];

/** Command lines, and what is offered at their end. In zsh a word begins behind "=" and the last "/". */
const lines: readonly (readonly [line: string, want: readonly string[], wantOfFish?: readonly string[]])[] = [
  ['rangeway ch', ['check']],
  ['rangeway p', ['probe', 'purge']],
  ['rangeway --st', ['--store']],
  ['rangeway --store ', ['disk', 'memory']],
  ['rangeway --store=d', ['disk'], ['--store=disk']],
  ['rangeway --workers ', ['auto']],
  ['rangeway --origin-host ', ['auto', 'keep', 'origin']],
  ['rangeway --max-size ', []],
  ['rangeway --log-level ', levels],
  ['rangeway http://127.0.0.1:3000 --log-level ', levels],
  ['rangeway serve --log-f', ['--log-format']],
  ['rangeway -l 127.0.0.1:8080 --log-format p', ['pretty']],
  ['rangeway --store disk ch', ['check']],
  ['rangeway ls --log', []],
  ['rangeway purge --a', ['--admin', '--all']],
  ['rangeway purge --tag check --so', ['--soft']],
  ['rangeway explain -X HEAD --cl', ['--client']],
  ['rangeway sign --s', ['--secret']],
  ['rangeway check si', ['sites', 'sites two', 'sites.json'], ['sites two/', 'sites.json', 'sites/']],
  ['rangeway check sites.json sites.', ['sites.json']],
  ['rangeway -c sites.', ['sites.json']],
  ['rangeway --dir si', ['sites', 'sites two'], ['sites two/', 'sites/']],
  ['rangeway completion ', ['bash', 'fish', 'zsh']],
  ['rangeway help pu', ['purge']],
];

describe.each<ShellName>(['bash', 'zsh', 'fish'])('in %s', (shell) => {
  itWith([shell], `${shell} completes commands, options and values`, async () => {
    const { stdout } = await scriptFor(shell);
    const asked = lines.map(([line]) => line);
    const offered = await offeredWords(shell, stdout, asked, dir);
    const wanted = lines.map(([, want, wantOfFish]) => (shell === 'fish' ? wantOfFish : undefined) ?? want);
    expect(asked.map((line, at) => [line, offered[at]])).toEqual(asked.map((line, at) => [line, wanted[at]]));
  });

  itWith([shell], `${shell} knows every command, and every option of every command`, async () => {
    const { stdout } = await scriptFor(shell);
    const program = readProgram(createProgram(createFakeCliIo(), () => undefined));
    const names = program.commands.map(({ name }) => name);
    expect(names).toContain('help');
    expect(names).not.toContain('worker');
    const wanted = program.commands.map(({ name, options }): [string, readonly string[]] => {
      const long = options.flatMap((option) => option.names.filter((each) => each.startsWith('--')));
      return [`rangeway ${name} --`, (name === 'serve' ? [...long, '--version'] : long).toSorted()];
    });
    wanted.push(['rangeway ', names.toSorted()]);
    const asked = wanted.map(([line]) => line);
    const offered = await offeredWords(shell, stdout, asked, dir);
    expect(asked.map((line, at) => [line, offered[at]])).toEqual(wanted);
  });
});

it('refuses another shell, and says which there are', async () => {
  const { code, stdout, stderr } = await scriptFor('tcsh');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain("value 'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish.");
});

it('asks for the shell where none is given', async () => {
  const io = createFakeCliIo();
  expect(await run(['completion'], io)).toBe(2);
  expect(io.written).toMatchObject({
    stdout: '',
    stderr:
      'rangeway: say for which shell: bash, zsh or fish. rangeway completion --help tells where the script goes\n',
  });
});

it('says where the script goes', async () => {
  const io = createFakeCliIo();
  expect(await run(['completion', '--help'], io)).toBe(0);
  for (const place of ['~/.bashrc', '$fpath', '~/.config/fish/completions/rangeway.fish'])
    expect(io.written.stdout).toContain(place);
});

describe('readProgram', () => {
  const read = (change: (command: Command) => unknown) => {
    const program = new Command('it').helpCommand(false);
    const command = program.command('do').description('does it').helpOption(false);
    change(command);
    return readProgram(program).commands[0];
  };

  it.each<[flags: string, value: unknown]>([
    ['-q, --quiet', undefined],
    ['--config <file>', { kind: 'file' }],
    ['--dir [directory]', { kind: 'directory' }],
    ['--sitemap <url|file>', { kind: 'file' }],
    ['--rendition <all|best|720p>', { kind: 'words', words: ['all', 'best'] }],
    ['--store <disk|memory>', { kind: 'words', words: ['disk', 'memory'] }],
    ['--host <origin|keep|NAME>', { kind: 'words', words: ['origin', 'keep'] }],
    ['--admin <[host:]port|unix:PATH|off>', { kind: 'words', words: ['off'] }],
    ['--listen <[host:]port>', { kind: 'text', name: '[host:]port' }],
    ['--size <size>', { kind: 'text', name: 'size' }],
  ])('the option %s', (flags, value) => {
    expect(read((command) => command.option(flags, 'what it does'))?.options).toEqual([
      { names: flags.match(/--?[a-z]+(?=,| |$)/g), description: 'what it does', value, isRepeatable: false },
    ]);
  });

  it('choices, hidden options and several arguments', () => {
    const command = read((each) =>
      each
        .addOption(new Option('--level <level>', 'given more than once').choices(['low', 'high']))
        .addOption(new Option('--secret').hideHelp())
        .addArgument(new Argument('<kind>').choices(['a', 'b']))
        .argument('[file...]'),
    );
    expect(command).toEqual({
      name: 'do',
      description: 'does it',
      options: [
        {
          names: ['--level'],
          description: 'given more than once',
          value: { kind: 'words', words: ['low', 'high'] },
          isRepeatable: true,
        },
      ],
      args: [{ kind: 'words', words: ['a', 'b'] }, { kind: 'file' }],
      isVariadic: true,
    });
  });
});
