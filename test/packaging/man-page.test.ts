/** The manual page: it has what `--help` has, and troff finds no macro in its text. */

import { Help } from 'commander';
import { describe, expect, it } from 'vitest';
import { formatManPage } from '../../packaging/man/man-page.ts';
import { createProcessIo } from '../../src/cli/io.ts';
import { createProgram } from '../../src/cli/program.ts';

const program = createProgram(createProcessIo(), () => undefined);
const page = formatManPage(program, '1.2.3');
/** The text without escapes. */
const text = page
  .replaceAll('\\-', '-')
  .replaceAll(/\\f[BR]/g, '')
  .replaceAll('\\(ti', '~');

describe('the manual page', () => {
  it('has every command, with its arguments and options', () => {
    const help = new Help();
    const commands = help.visibleCommands(program);
    expect(commands.length).toBeGreaterThan(10);
    for (const command of commands) {
      expect(text).toContain(`\n.SS rangeway ${command.name()}`);
      for (const { name } of help.visibleArguments(command).map((argument) => ({ name: argument.name() }))) {
        expect(text, command.name()).toContain(`\n<${name}>\n`);
      }
      for (const { flags } of help.visibleOptions(command)) expect(text, command.name()).toContain(`\n${flags}\n`);
    }
  });

  it('has the sections of a manual page, and the version', () => {
    const sections = [...page.matchAll(/^\.SH (.*)$/gm)].map(([, name]) => name);
    expect(sections.slice(0, 4)).toEqual(['NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS']);
    expect(sections).toEqual(expect.arrayContaining(['COMMANDS', 'EXIT STATUS', 'SIGNALS', 'ENVIRONMENT', 'FILES']));
    expect(page).toContain('"Rangeway 1.2.3"');
  });

  it('uses only macros that it means to use', () => {
    const macros = new Set([...page.matchAll(/^[.'](\w*)/gm)].map(([, name]) => name));
    expect(macros).toEqual(new Set(['TH', 'SH', 'SS', 'TP', 'PP', 'br', 'nh', 'ad']));
    expect(page.match(/[^\x20-\x7e\n]/g)).toBeNull();
  });
});
