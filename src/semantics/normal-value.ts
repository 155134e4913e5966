/** The normal form of a request field's value: one text for all values that are known to mean the same (RFC 9111 §4.1). */

import { listMembers, trimWhitespace } from '../http/fields.ts';
import { ownText } from '../http/own-text.ts';

/** Not lists: a comma is part of what they say, and so is the white space around it. */
const indivisibleFields: ReadonlySet<string> = new Set(['cookie', 'referer', 'user-agent']);

/** Names of codings that have another name (RFC 9110 §8.4.1.1, §8.4.1.3). */
const codingAliases: ReadonlyMap<string, string> = new Map([
  ['x-compress', 'compress'],
  ['x-gzip', 'gzip'],
]);

const noAliases: ReadonlyMap<string, string> = new Map();

/** One lower-case name and nothing else. */
const singleName = /^[a-z0-9*-]+$/;

/** In lower case: a language range, charset or coding, with or without its weight (RFC 9110 §12.4.2). */
const weightedName = /^([!#$%&'*+\-.^_`|~\w]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?$/;

const mediaType = /^[!#$%&'*+\-.^_`|~\w]+\/[!#$%&'*+\-.^_`|~\w]+$/;
const parameter = /^([!#$%&'*+\-.^_`|~\w]+)=([!#$%&'*+\-.^_`|~\w]+)$/;
const weight = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * The normal form of a value, its lines joined with commas already; `name` in lower case. Two values with the same form
 * mean the same by the specification of their field, so that a response to one is a response to the other:
 *
 * - Accept-Language, Accept-Charset, Accept-Encoding: case, white space, empty and repeated members mean nothing; weights
 *   are numbers; and as weights alone tell what is preferred, the order means nothing (RFC 9110 §12.4.2, §12.5.2–4):
 *   the members are sorted as texts. Whoever offers none is not whoever says nothing: an empty value stays one (§12.5.3).
 * - Accept: the same of case (but not of a parameter's value), white space and weights; the order stays, as origins do
 *   choose by it (§12.5.1).
 * - every other field: white space around the commas of a list, outside quoted-strings (§5.6.1). So too where the four
 *   above do not follow their grammar, for then nothing else is known of them. Where a comma separates nothing, as in
 *   User-Agent, all of it stays.
 *
 * Total; the form of a form is itself.
 */
export function normalValue(name: string, value: string): string {
  switch (name) {
    case 'accept-language':
    case 'accept-charset':
      return weightedList(value, noAliases) ?? withoutListSpace(value);
    case 'accept-encoding':
      return normalCodings(value);
    case 'accept':
      return mediaRanges(value) ?? withoutListSpace(value);
    default:
      return indivisibleFields.has(name) ? value : withoutListSpace(value);
  }
}

/** Browsers send a few values, and responses of the web vary by them. So many are remembered: clients could invent any number. */
const MAX_REMEMBERED = 256;
const MAX_REMEMBERED_LENGTH = 128;
const remembered = new Map<string, string>();

function normalCodings(value: string): string {
  const known = remembered.get(value);
  if (known !== undefined) return known;
  const normal = weightedList(value, codingAliases) ?? withoutListSpace(value);
  if (remembered.size < MAX_REMEMBERED && value.length <= MAX_REMEMBERED_LENGTH) {
    remembered.set(ownText(value), ownText(normal));
  }
  return normal;
}

function weightedList(value: string, aliases: ReadonlyMap<string, string>): string | undefined {
  if (singleName.test(value)) return aliases.get(value) ?? value;
  const members = new Set<string>();
  for (const member of listMembers(value.toLowerCase())) {
    const [, name, given] = weightedName.exec(member) ?? [];
    if (name === undefined) return undefined;
    const shortest = aliases.get(name) ?? name;
    members.add(given === undefined ? shortest : shortest + weightSuffix(given));
  }
  return [...members].sort().join(',');
}

/** The shortest way to write a weight after a name: that of 1, which is the default, is none. */
function weightSuffix(text: string): string {
  const number = Number(text);
  return number === 1 ? '' : `;q=${number}`;
}

function mediaRanges(value: string): string | undefined {
  const ranges: string[] = [];
  for (const member of listMembers(value)) {
    const range = mediaRange(member);
    if (range === undefined) return undefined;
    ranges.push(range);
  }
  return ranges.join(',');
}

function mediaRange(member: string): string | undefined {
  const [type = '', ...parameters] = member.split(';').map(trimWhitespace);
  if (!mediaType.test(type)) return undefined;
  let text = type.toLowerCase();
  for (const [index, written] of parameters.entries()) {
    const [, name, argument = ''] = parameter.exec(written) ?? [];
    if (name === undefined) return undefined;
    const isWeight = /^q$/i.test(name) && index === parameters.length - 1 && weight.test(argument);
    // A second weight, whose value not all origins would take.
    if (isWeight && /;q=/.test(text)) return undefined;
    text += isWeight ? weightSuffix(argument) : `;${name.toLowerCase()}=${argument}`;
  }
  return text;
}

/** A list without the white space around its commas (OWS, RFC 9110 §5.6.1); what is within quotes stays. */
function withoutListSpace(value: string): string {
  if (!/^[ \t]|[ \t],|,[ \t]|[ \t]$/.test(value)) return value;
  const members: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < value.length; at++) {
    const character = value[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (character === '\\' && isQuoted) at++;
    else if (character === ',' && !isQuoted) {
      members.push(trimWhitespace(value.slice(start, at)));
      start = at + 1;
    }
  }
  members.push(trimWhitespace(value.slice(start)));
  return members.join(',');
}
