/** What `rangeway doctor` finds, and how it is printed. */

import { createPainter } from '../terminal/style.ts';
import { formatSections, printableJson, replaceTerminalControls } from '../text-sections.ts';

/**
 * How bad a finding is: `ok`; `note`: good to know; `warning`: it works, but worse than it could or not for long; `problem`: the
 * server does not start, or clients get errors.
 */
export type DiagnosisLevel = 'ok' | 'note' | 'warning' | 'problem';

/** One finding. Plain data: `rangeway doctor --json` prints it as it is. */
export interface Diagnosis {
  readonly level: DiagnosisLevel;
  /** What was checked, as a word for programs. */
  readonly topic:
    | 'node'
    | 'user'
    | 'cores'
    | 'memory'
    | 'descriptors'
    | 'connections'
    | 'backlog'
    | 'clock'
    | 'sendfile'
    | 'systemd'
    | 'store'
    | 'space'
    | 'inodes'
    | 'listen'
    | 'certificate'
    | 'secret'
    | 'config'
    | 'origin';
  /** Where in the configuration or on the machine: an option, a file, an address; undefined for the machine as a whole. */
  readonly where?: string | undefined;
  /** What was found: a sentence without a capital and a full stop, for people. */
  readonly what: string;
  /** What to do: the command or the option. */
  readonly advice?: string | undefined;
}

/** Creates a finding that asks for nothing. */
export function fine(topic: Diagnosis['topic'], what: string, where?: string): Diagnosis {
  return { level: 'ok', topic, where, what };
}

/** Creates a finding with advice. */
export function found(
  level: Exclude<DiagnosisLevel, 'ok'>,
  topic: Diagnosis['topic'],
  what: string,
  advice: string | undefined,
  where?: string,
): Diagnosis {
  return { level, topic, where, what, advice };
}

/** The version of the format that `--json` prints. */
const VERSION = 1;

/** Formats the findings for programs. `checked` describes the configuration. */
export function diagnosesJson(checked: string, findings: readonly Diagnosis[]): string {
  return `${printableJson({ version: VERSION, checked, findings }, 2)}\n`;
}

/** The column where texts begin: behind the longest level and the longest topic. */
const INDENT = 22;

const colors = { ok: 'green', note: 'cyan', warning: 'yellow', problem: 'red' } as const;

/** Formats the findings for people, with a last line that sums them up. */
export function formatDiagnoses(checked: string, findings: readonly Diagnosis[], hasColors: boolean): string {
  const sections = findings.map(({ level, topic, where, what, advice }) => ({
    label: `${level.padEnd(9)}${topic}`,
    lines: [`${where === undefined ? '' : `${where}: `}${what}`, ...(advice === undefined ? [] : [`→ ${advice}`])],
  }));
  const text = replaceTerminalControls(formatSections(sections, INDENT));
  const paint = createPainter(hasColors);
  const colored = text.replaceAll(/^(?:ok|note|warning|problem)\b/gm, (level) =>
    paint[colors[level as DiagnosisLevel]](level),
  );
  return `${replaceTerminalControls(checked)}\n\n${colored}\n${summary(findings)}\n`;
}

function summary(findings: readonly Diagnosis[]): string {
  const count = (level: DiagnosisLevel, name: string) => {
    const { length } = findings.filter((each) => each.level === level);
    return `${length === 0 ? 'no' : length} ${name}${length === 1 ? '' : 's'}`;
  };
  return [count('problem', 'problem'), count('warning', 'warning'), count('note', 'note')].join(', ');
}
