/** Asks shells what they would offer at the end of a command line, with a completion script of the program. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ShellName } from '../../../src/cli/completion/completion.ts';
import { runProgram } from './programs.ts';

/**
 * Resolves with the words that a shell offers at the end of each line, sorted. The working directory is `dir`, which also gets the
 * script. One process answers for all lines, because a shell takes long to start.
 */
export async function offeredWords(
  shell: ShellName,
  script: string,
  lines: readonly string[],
  dir: string,
): Promise<readonly (readonly string[])[]> {
  // The name that zsh looks for in $fpath.
  await writeFile(join(dir, '_rangeway'), script);
  const { code, stdout, stderr } = await runProgram(shell, questions[shell](lines), dir);
  if (code !== 0 || stderr !== '') throw new Error(`${shell} ended with ${code}: ${stderr}`);
  const answers = stdout.toString().split('<end>').slice(0, -1);
  return answers.map((answer) => {
    const words = [...answer.matchAll(/<offered ([^\r\n]*)>/g)].map(([, word = '']) => word.replaceAll('\\ ', ' '));
    return [...new Set(words)].sort();
  });
}

const questions: Record<ShellName, (lines: readonly string[]) => readonly string[]> = {
  bash: (lines) => ['--norc', '-c', bashQuestion, 'bash', ...lines.flatMap((line) => [...splitAsBash(line), '<line>'])],
  zsh: (lines) => ['-f', '-c', zshQuestion, 'zsh', ...lines],
  fish: (lines) => ['--no-config', '-c', fishQuestion, ...lines],
};

/** bash calls the function with the words of the line; the last one is completed. */
const bashQuestion = `
source ./_rangeway
complete -p rangeway >/dev/null || exit 1
COMP_WORDS=()
for word in "$@"; do
  if [ "$word" != '<line>' ]; then COMP_WORDS+=("$word"); continue; fi
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
  _rangeway rangeway
  for offered in "\${COMPREPLY[@]}"; do echo "<offered $offered>"; done
  echo '<end>'
  COMP_WORDS=()
done`;

/** bash also splits words at the signs of COMP_WORDBREAKS, which are words then. */
function splitAsBash(line: string): string[] {
  return line.split(' ').flatMap((word) => (word === '' ? [''] : word.split(/([=:])/).filter((part) => part !== '')));
}

const fishQuestion = `
source _rangeway
for line in $argv
  complete -C $line | while read --delimiter \\t word rest; echo "<offered $word>"; end
  echo '<end>'
end`;

/** zsh completes only on a terminal. \`compadd\` gets the words that it offers; key ^T completes a line and removes it. */
const zshQuestion = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PROMPT=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -D -u
compadd() {
  if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
  typeset -a words
  builtin compadd -A words "$@"
  print -rl -- "<""offered "\${^words}">"
  builtin compadd "$@"
}
zle -C offer complete-word offering
offering() { _main_complete; print -r -- "<""end>" }
ask() { zle offer; BUFFER= }
zle -N ask
bindkey "^T" ask
print -r "<""ready>"'
zpty -r shell output '*<ready>*'
for line; do
  zpty -w -n shell "$line"$'\\x14'
  zpty -r shell output '*<end>*'
  print -r -- "$output"
done`;
