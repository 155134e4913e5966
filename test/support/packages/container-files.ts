/** The Dockerfile and the compose file, parsed. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { parse } from 'yaml';
import { projectDirectory } from '../processes/rangeway-process.ts';

/** The text of a file of the checkout. */
export const textOf = (name: string): string => readFileSync(join(projectDirectory, name), 'utf8');

/** One instruction: its keyword, its flags, and the rest as text, with continued lines joined. */
export interface DockerInstruction {
  readonly keyword: string;
  readonly flags: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Returns the instructions of each stage. */
export function readStages(): readonly (readonly DockerInstruction[])[] {
  const stages: DockerInstruction[][] = [];
  for (const instruction of DockerfileParser.parse(textOf('Dockerfile')).getInstructions()) {
    const parsed = readInstruction(instruction);
    if (parsed.keyword === 'FROM') stages.push([]);
    stages.at(-1)?.push(parsed);
  }
  return stages;
}

function readInstruction(instruction: Instruction): DockerInstruction {
  const flags: Record<string, string> = {};
  let text = instruction
    .getTextContent()
    .slice(instruction.getInstruction().length)
    // Comments between continued lines are not part of the instruction.
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .trim();
  for (let match = /^--([a-z-]+)=(\S+)\s+/.exec(text); match !== null; match = /^--([a-z-]+)=(\S+)\s+/.exec(text)) {
    flags[match[1] ?? ''] = match[2] ?? '';
    text = text.slice(match[0].length);
  }
  return { keyword: instruction.getKeyword(), flags, text };
}

/** Returns the only instruction of a stage with this keyword. */
export function onlyOne(stage: readonly DockerInstruction[], keyword: string): DockerInstruction {
  const [found, ...others] = stage.filter((each) => each.keyword === keyword);
  if (found === undefined || others.length > 0) throw new Error(`expected one ${keyword}`);
  return found;
}

/** A service of the compose file. */
export interface ComposeService {
  readonly command: readonly string[];
  readonly tmpfs: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly [name: string]: unknown;
}

/** Returns the services of the compose file, with what they share filled in. */
export function readServices(): Readonly<Record<string, ComposeService>> {
  const { services } = parse(textOf('packaging/docker/compose.yaml'), { merge: true, strict: true }) as {
    services: Record<string, ComposeService>;
  };
  return services;
}
