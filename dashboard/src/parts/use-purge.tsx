/** Purging, with a confirmation that shows what would be purged. */

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Api, ApiFailure, type Search } from '../api.ts';
import type { EntryPage } from '../api-types.ts';
import { useApp } from '../app-context.ts';
import { countOf } from '../model/format.ts';
import { Choices, Uri } from './panel.tsx';

/** What is purged: the kind, and the values as the API takes them. */
export interface PurgeChoice {
  readonly kind: 'url' | 'prefix' | 'host' | 'tag' | 'group' | 'all';
  readonly values: Search;
}

/** `hard` removes; `soft` ends the lifetime. */
export type PurgeMode = 'hard' | 'soft';

/** The choices of a mode. */
export const modes = [
  ['soft', 'Soft: validate it before its next use'],
  ['hard', 'Hard: remove it'],
] as const satisfies readonly (readonly [PurgeMode, string])[];

/**
 * Returns a function that asks for a confirmation and then purges; it resolves with whether something was purged. `onPurged` is called
 * then. Without a mode the dialog asks for it.
 */
export function usePurge(onPurged?: () => void): (choice: PurgeChoice, mode?: PurgeMode) => Promise<boolean> {
  const { api, announce, confirm } = useApp();
  return async (choice, given) => {
    const chosen: { mode: PurgeMode } = { mode: given ?? 'soft' };
    const isConfirmed = await confirm({
      title: `Purge ${describeChoice(choice)}?`,
      action: given === undefined ? 'Purge' : given === 'hard' ? 'Remove' : 'Expire',
      isGrave: given !== 'soft',
      body: (
        <>
          <Preview api={api} choice={choice} />
          {given === undefined ? <ModeChoice onChoose={(mode) => (chosen.mode = mode)} /> : <p>{modeText(given)}</p>}
        </>
      ),
    });
    if (!isConfirmed) return false;
    const { mode } = chosen;
    try {
      const { entries } = await api.purge({ ...(choice.kind === 'all' ? { all: true } : choice.values), mode });
      announce(purgeText(mode, choice, entries), 'good');
      onPurged?.();
      return true;
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure)) throw thrown;
      announce(thrown.message, 'bad');
      return false;
    }
  };
}

function purgeText(mode: PurgeMode, { kind }: PurgeChoice, entries: number): string {
  // A hard purge by these counts keys, each with all its variants.
  const countsKeys = mode === 'hard' && kind !== 'url';
  const count = countsKeys ? countOf(entries, 'key', 'keys') : countOf(entries, 'entry', 'entries');
  return mode === 'hard' ? `Purged: ${count} removed.` : `Purged: ${count} must be validated before the next use.`;
}

function modeText(mode: PurgeMode): string {
  return mode === 'hard'
    ? 'What is stored is removed. The next request asks the origin.'
    : 'What is stored is validated before it is used again. It may still be served where the origin fails.';
}

/** Describes what a choice selects. */
export function describeChoice({ kind, values }: PurgeChoice): string {
  const { url, prefix, host, tag, group, origin } = values;
  switch (kind) {
    case 'url':
      return `this URL: ${url}`;
    case 'prefix':
      return `every URL that begins with ${prefix}`;
    case 'host':
      return `the host ${host}`;
    case 'tag':
      return `the tag ${tag}`;
    case 'group':
      return `the group ${group} of ${origin}`;
    case 'all':
      return 'everything';
  }
}

function ModeChoice({ onChoose }: { onChoose(mode: PurgeMode): void }): JSX.Element {
  const [mode, setMode] = useState<PurgeMode>('soft');
  return (
    <Choices
      label="How"
      choices={modes}
      value={mode}
      onChoose={(chosen: PurgeMode) => {
        setMode(chosen);
        onChoose(chosen);
      }}
    />
  );
}

/** The most URIs that a confirmation shows. */
const shownEntries = 5;

/** Shows the first entries that a choice selects now. */
function Preview({ api, choice }: { readonly api: Api; readonly choice: PurgeChoice }): JSX.Element {
  const [page, setPage] = useState<EntryPage | string>();
  useEffect(() => {
    const aborting = new AbortController();
    const query = { search: choice.values, sort: 'key', order: 'asc', limit: shownEntries };
    api.listEntries(query, aborting.signal).then(setPage, (thrown: unknown) => {
      if (thrown instanceof ApiFailure) setPage(thrown.message);
    });
    return () => aborting.abort();
  }, [api, choice]);
  if (typeof page === 'string') return <p class="failure">{page}</p>;
  if (page === undefined) return <p class="hint">Reading what this selects…</p>;
  if (page.entries.length === 0) return <p>Nothing is stored for it now.</p>;
  return (
    <ul class="preview">
      {page.entries.map(({ uri, key, generation }) => (
        <li key={`${key} ${generation}`}>
          <Uri uri={uri} short />
        </li>
      ))}
      {page.next === undefined ? null : <li>and more</li>}
    </ul>
  );
}
