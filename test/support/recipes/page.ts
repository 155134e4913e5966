/** Reads the fenced blocks of a page of docs/recipes, and compares the output of commands with the output that a page shows. */

/** A block that a reader copies into a file. */
export interface FileBlock {
  readonly kind: 'file';
  readonly section: string;
  /** The path, as the line before the block names it. */
  readonly name: string;
  readonly language: string;
  readonly text: string;
}

/** A block with a command of which the page does not show the output: it has to succeed, or it is a server. */
export interface ShellBlock {
  readonly kind: 'shell';
  readonly section: string;
  /** The commands, one for each element. A command that continues after `\` is one element. */
  readonly commands: readonly string[];
}

/** A block with commands and their output. */
export interface ConsoleBlock {
  readonly kind: 'console';
  readonly section: string;
  readonly commands: readonly ShownCommand[];
}

/** A command after `$ `, and the lines that the page shows after it. */
export interface ShownCommand {
  readonly command: string;
  readonly shown: readonly string[];
}

export type Block = FileBlock | ShellBlock | ConsoleBlock;

/** A heading, or a fenced block with its language. */
const parts = /^#+ +(?<heading>.*)$|^```(?<language>\S*)\n(?<text>[\s\S]*?)\n```$/gm;

/**
 * Returns the blocks of a page in order. `sh` blocks have commands, `console` blocks commands and their output, and `text` blocks
 * are drawings, which are left out. Any other block is a file, and the line before it ends with its name: `rangeway.json`:
 * Throws where a block is none of these.
 */
export function readBlocks(page: string): readonly Block[] {
  const blocks: Block[] = [];
  let section = '';
  for (const match of page.matchAll(parts)) {
    const { heading, language = '', text = '' } = match.groups ?? {};
    if (heading !== undefined) section = heading;
    else if (language === 'sh') blocks.push({ kind: 'shell', section, commands: commandsOf(text.split('\n')) });
    else if (language === 'console') blocks.push({ kind: 'console', section, commands: shownCommands(text) });
    else if (language !== 'text') {
      const name = /`([^`\n]+)`[^`\n]*:\s*$/.exec(page.slice(0, match.index))?.[1];
      if (name === undefined)
        throw new Error(`The line before this block does not end with the name of its file:\n${text}`);
      blocks.push({ kind: 'file', section, name, language, text: `${text}\n` });
    }
  }
  return blocks;
}

/** Joins lines that end with `\` with the next one, and leaves empty lines and comments out. */
function commandsOf(lines: readonly string[]): readonly string[] {
  const commands: string[] = [];
  for (const line of lines) {
    const last = commands.at(-1);
    if (last?.endsWith('\\')) commands[commands.length - 1] = `${last}\n${line}`;
    else if (line.trim() !== '' && !line.startsWith('#')) commands.push(line);
  }
  return commands;
}

function shownCommands(text: string): readonly ShownCommand[] {
  const commands: { command: string; shown: string[] }[] = [];
  for (const line of text.split('\n')) {
    const last = commands.at(-1);
    if (line.startsWith('$ ')) commands.push({ command: line.slice(2), shown: [] });
    else if (last === undefined) throw new Error(`The block does not begin with a command:\n${text}`);
    else if (last.shown.length === 0 && last.command.endsWith('\\')) last.command += `\n${line}`;
    else last.shown.push(line);
  }
  return commands;
}

/** Returns the lines of an output as a page can show them: without carriage returns, and without spaces at the end of a line. */
export function outputLines(output: string): readonly string[] {
  const lines = output.split('\n').map((line) => line.trimEnd());
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
}

/** Whether a page shows this output. `…` stands for any text in a line, and alone in a line for any number of lines. */
export function isShown(shown: readonly string[], output: string): boolean {
  const pattern = shown.map((line) => (line === '…' ? '(?:.*\n)*' : `${line.split('…').map(escaped).join('.*')}\n`));
  return new RegExp(`^${pattern.join('')}$`).test(
    outputLines(output)
      .map((line) => `${line}\n`)
      .join(''),
  );
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
