/** Options that a server cannot change while it runs. */

import type { Config } from '../config/schema.ts';

/**
 * The options of another configuration that would need a restart, as they are written: those of the store, which stays open;
 * how many processes there are and where they are reached; the name by which other proxies know them; the form of the log; and
 * the permissions of a Unix socket that is listened on already.
 */
export function findFixedChanges(before: Config, after: Config): readonly string[] {
  return [
    ...changesIn('store', before.store, after.store),
    ...changesIn('workers', before.workers, after.workers),
    ...changesIn('admin', before.admin, after.admin),
    ...changesIn('pseudonym', before.pseudonym, after.pseudonym),
    ...changesIn('log.format', before.log.format, after.log.format),
    ...changedModes(before, after),
  ];
}

/** Says so in a sentence; undefined where there are none. */
export function describeFixedChanges(before: Config, after: Config): string | undefined {
  const names = findFixedChanges(before, after);
  if (names.length === 0) return undefined;
  return `${names.join(', ')} cannot be changed while the server runs: this needs a restart`;
}

function changesIn(path: string, before: unknown, after: unknown): readonly string[] {
  if (isSection(before) && isSection(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => changesIn(`${path}.${name}`, before[name], after[name]));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [path];
}

/** Of a place that stays, only its socket tells the permissions. */
function changedModes(before: Config, after: Config): readonly string[] {
  return after.listen.flatMap(({ address, mode }, index) => {
    if (address.kind !== 'unix') return [];
    const same = before.listen.find((each) => each.address.kind === 'unix' && each.address.path === address.path);
    return same === undefined || same.mode === mode ? [] : [`listen[${index}].mode`];
  });
}

/** Whether it has options of its own: what one option was parsed into, an address or where a secret is, tells of its kind. */
function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !('kind' in value);
}
