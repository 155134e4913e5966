/** The stored entries: search, sort and pages, all by the server. */

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, type Search } from '../api.ts';
import type { EntryPage, EntryStatus } from '../api-types.ts';
import { useApp, useLive } from '../app-context.ts';
import { ageText, countText, dateText, percentText, sizeText, unknownText } from '../model/format.ts';
import { formatPlace } from '../model/place.ts';
import { Icon } from '../parts/icons.tsx';
import { Bar, Empty, Failure, Field, Panel, Pill, Uri } from '../parts/panel.tsx';
import { usePurge } from '../parts/use-purge.tsx';

/** How a text selects entries. */
const kinds = [
  ['contains', 'the URI contains'],
  ['url', 'the URL is'],
  ['prefix', 'the URL begins with'],
  ['host', 'the host is'],
  ['tag', 'the tag is'],
] as const;

const sorts = [
  ['key', 'URI', 'asc'],
  ['size', 'Size', 'desc'],
  ['age', 'Age', 'asc'],
  ['used', 'Used', 'desc'],
] as const;

type SortName = (typeof sorts)[number][0];

const pageSizes = ['25', '50', '100', '200'] as const;

/** How long the server is not asked while a person types, in milliseconds. */
const typingMs = 250;

/** What the list shows, as the address of the page has it. */
interface Wish {
  readonly by: (typeof kinds)[number][0];
  readonly text: string;
  readonly sort: SortName;
  readonly order: 'asc' | 'desc';
  readonly limit: number;
}

function readWish(values: Readonly<Record<string, string>>): Wish {
  const { by, text = '', sort, order, limit = '' } = values;
  const [kind] = kinds.find(([name]) => name === by) ?? kinds[0];
  const [name, , first] = sorts.find(([each]) => each === sort) ?? sorts[0];
  const size = pageSizes.find((each) => each === limit) ?? '50';
  return {
    by: kind,
    text,
    sort: name,
    order: order === 'asc' || order === 'desc' ? order : first,
    limit: Number(size),
  };
}

function searchOf({ by, text }: Wish): Search {
  return text.trim() === '' ? {} : { [by]: text.trim() };
}

/** Shows a page of entries. `values`: those of the address. */
export function Entries({ values }: { readonly values: Readonly<Record<string, string>> }): JSX.Element {
  const { go, live } = useApp();
  const wish = readWish(values);
  const [text, setText] = useState(wish.text);
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(wish.text), [wish.text]);
  useEffect(() => () => clearTimeout(typing.current), []);
  const change = (changed: Partial<Wish>): void => {
    const { by, text: given, sort, order, limit } = { ...wish, text, ...changed };
    clearTimeout(typing.current);
    go('entries', { by, text: given, sort, order, limit: String(limit) }, true);
  };
  const type = (typed: string): void => {
    setText(typed);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => change({ text: typed }), typingMs);
  };
  const pages = usePages(wish);
  const total = wish.text === '' ? live.activity?.store.entries : undefined;
  return (
    <Panel title="Stored entries" aside={<PageState pages={pages} total={total} />}>
      <search>
        <form
          class="bar-of-fields"
          onSubmit={(event) => {
            event.preventDefault();
            change({});
          }}
        >
          <Field label="Show where">
            {(id) => (
              <select
                id={id}
                value={wish.by}
                onChange={({ currentTarget }) => change({ by: currentTarget.value as Wish['by'] })}
              >
                {kinds.map(([name, label]) => (
                  <option key={name} value={name}>
                    {label}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Text" class="grow">
            {(id) => (
              <input
                id={id}
                type="search"
                value={text}
                spellcheck={false}
                placeholder="all entries"
                onInput={({ currentTarget }) => type(currentTarget.value)}
              />
            )}
          </Field>
          <Field label="Sort by" class="narrow-only">
            {(id) => (
              <select
                id={id}
                value={`${wish.sort} ${wish.order}`}
                onChange={({ currentTarget }) => {
                  const [sort, order] = currentTarget.value.split(' ') as [SortName, Wish['order']];
                  change({ sort, order });
                }}
              >
                {sorts.flatMap(([name, label]) =>
                  (['asc', 'desc'] as const).map((order) => (
                    <option key={`${name} ${order}`} value={`${name} ${order}`}>
                      {label}, {order === 'asc' ? 'ascending' : 'descending'}
                    </option>
                  )),
                )}
              </select>
            )}
          </Field>
          <Field label="On a page">
            {(id) => (
              <select
                id={id}
                value={String(wish.limit)}
                onChange={({ currentTarget }) => change({ limit: Number(currentTarget.value) })}
              >
                {pageSizes.map((size) => (
                  <option key={size}>{size}</option>
                ))}
              </select>
            )}
          </Field>
        </form>
      </search>
      <Failure text={pages.failure} />
      <EntryTable pages={pages} wish={wish} onSort={(sort, order) => change({ sort, order })} />
      <nav class="pages" aria-label="Pages of entries">
        <button type="button" class="button" disabled={pages.number === 0} onClick={pages.back}>
          Previous
        </button>
        <span>page {countText(pages.number + 1)}</span>
        <button type="button" class="button" disabled={pages.page?.next === undefined} onClick={pages.forth}>
          Next
        </button>
      </nav>
    </Panel>
  );
}

interface Pages {
  readonly page: EntryPage | undefined;
  /** From 0. */
  readonly number: number;
  readonly firstRow: number;
  readonly isBusy: boolean;
  readonly readAt: number;
  readonly failure: string | undefined;
  back(): void;
  forth(): void;
  refresh(): void;
}

/** Reads page after page of a wish. A new wish begins at its first page. */
function usePages(wish: Wish): Pages {
  const { api, live } = useApp();
  const name = JSON.stringify(wish);
  const [place, setPlace] = useState({ name, starts: [] as readonly string[], turn: 0 });
  const { starts, turn } = place.name === name ? place : { starts: [], turn: 0 };
  const [read, setRead] = useState<{ page?: EntryPage; readAt: number; failure?: string; of: string }>({
    readAt: 0,
    of: '',
  });
  const wanted = JSON.stringify([name, starts, turn]);
  // The server's clock, by which ages are computed.
  const now = (): number => live.activity?.at ?? Date.now();
  // The wish is in `wanted`.
  useEffect(() => {
    const aborting = new AbortController();
    const query = {
      search: searchOf(wish),
      sort: wish.sort,
      order: wish.order,
      limit: wish.limit,
      after: starts.at(-1),
    };
    api.listEntries(query, aborting.signal).then(
      (page) => setRead({ page, readAt: now(), of: wanted }),
      (thrown: unknown) => {
        if (thrown instanceof ApiFailure)
          setRead(({ page }) => ({ ...(page && { page }), readAt: now(), failure: thrown.message, of: wanted }));
      },
    );
    return () => aborting.abort();
  }, [api, wanted]);
  const { page, readAt, failure } = read;
  const isBusy = read.of !== wanted;
  return {
    page,
    number: starts.length,
    firstRow: starts.length * wish.limit,
    isBusy,
    readAt,
    failure,
    back: () => setPlace({ name, starts: starts.slice(0, -1), turn }),
    forth: () => {
      // While another page is read, this one does not tell where the next one begins.
      if (!isBusy && page?.next !== undefined) setPlace({ name, starts: [...starts, page.next], turn });
    },
    refresh: () => setPlace({ name, starts, turn: turn + 1 }),
  };
}

function PageState({ pages, total }: { readonly pages: Pages; readonly total: number | undefined }): JSX.Element {
  const { page, firstRow, isBusy, refresh } = pages;
  const count = page?.entries.length ?? 0;
  const range = count === 0 ? 'none' : `${countText(firstRow + 1)}–${countText(firstRow + count)}`;
  return (
    <>
      <span role="status">
        {page === undefined ? '' : total === undefined ? range : `${range} of ${countText(total)}`}
      </span>
      <button type="button" class="button small" aria-busy={isBusy} onClick={refresh}>
        <Icon name="refresh" /> Refresh
      </button>
    </>
  );
}

function EntryTable(props: {
  readonly pages: Pages;
  readonly wish: Wish;
  onSort(sort: SortName, order: Wish['order']): void;
}): JSX.Element {
  const { pages, wish, onSort } = props;
  const { page, readAt } = pages;
  if (page === undefined)
    return <Empty>{pages.failure === undefined ? 'Reading…' : 'No entries could be read.'}</Empty>;
  if (page.entries.length === 0) return <NoEntries wish={wish} />;
  return (
    <div class="scroll" aria-busy={pages.isBusy}>
      <table class="table entries">
        <caption class="unseen">Stored entries</caption>
        <thead>
          <tr>
            <SortHead name="key" wish={wish} onSort={onSort} />
            <th scope="col" class="number rather">
              Status
            </th>
            <SortHead name="size" wish={wish} onSort={onSort} class="number" />
            <th scope="col" class="entry-stored">
              Stored
            </th>
            <SortHead name="age" wish={wish} onSort={onSort} class="number rather" />
            <SortHead name="used" wish={wish} onSort={onSort} class="number rather" />
            <th scope="col" class="entry-actions">
              <span class="unseen">Purge</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {page.entries.map((entry) => (
            <EntryRow key={`${entry.key} ${entry.generation}`} entry={entry} now={readAt} onPurged={pages.refresh} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function NoEntries({ wish }: { readonly wish: Wish }): JSX.Element {
  const { activity } = useLive();
  if (wish.text !== '') {
    const [, label] = kinds.find(([name]) => name === wish.by) ?? kinds[0];
    return (
      <Empty>
        No stored entry where {label} “{wish.text}”. <a href={formatPlace('entries')}>Show all entries</a>
      </Empty>
    );
  }
  const isServing = activity === undefined || activity.isReady;
  return (
    <Empty>
      Nothing is stored yet:{' '}
      {isServing ? 'the first response that may be stored appears here.' : 'the server is not ready.'} You can also{' '}
      <a href={formatPlace('change')}>warm a URL</a>, or <a href={formatPlace('explain')}>ask why</a> a response is not
      stored.
    </Empty>
  );
}

function SortHead(props: {
  readonly name: SortName;
  readonly wish: Wish;
  readonly class?: string;
  onSort(sort: SortName, order: Wish['order']): void;
}): JSX.Element {
  const { name, wish, onSort } = props;
  const [, label, first] = sorts.find(([each]) => each === name) ?? sorts[0];
  const isSorted = wish.sort === name;
  const next = isSorted ? (wish.order === 'asc' ? 'desc' : 'asc') : first;
  const order = wish.order === 'asc' ? 'ascending' : 'descending';
  return (
    <th scope="col" class={props.class ?? ''} aria-sort={isSorted ? order : 'none'}>
      <button type="button" class="sort" onClick={() => onSort(name, next)}>
        {label}
        <span class="sort-sign" aria-hidden="true">
          {isSorted ? (wish.order === 'asc' ? '▲' : '▼') : ''}
        </span>
      </button>
    </th>
  );
}

function EntryRow(props: { readonly entry: EntryStatus; readonly now: number; onPurged(): void }): JSX.Element {
  const { entry, now, onPurged } = props;
  const {
    key,
    generation,
    uri,
    status,
    contentType,
    sizeBytes,
    isComplete,
    isInvalid,
    pinnedUntil,
    responseAt,
    usedAt,
  } = entry;
  const purge = usePurge(onPurged);
  const share = sizeBytes === 0 ? 1 : entry.presentBytes / sizeBytes;
  return (
    <tr>
      <th scope="row" class="what">
        <a href={formatPlace('entry', { key, generation })}>
          <Uri uri={uri} short />
        </a>
        <span class="below">
          {contentType ?? 'no type'}
          {entry.variant === '' ? '' : ', a variant'}
          {isInvalid ? <Pill tone="warn">to be validated</Pill> : null}
          {pinnedUntil === undefined ? null : <Pill tone="quiet">replaced</Pill>}
        </span>
      </th>
      <td class="number rather">{status}</td>
      <td class="number">{sizeText(sizeBytes)}</td>
      <td class="entry-stored">
        <Bar share={share} tone="here" label="Stored" />
        <span class="below">{isComplete ? 'all' : percentText(share)}</span>
      </td>
      <td class="number rather" title={dateText(responseAt)}>
        {ageText(now - responseAt)}
      </td>
      <td class="number rather" title={usedAt === undefined ? undefined : dateText(usedAt)}>
        {usedAt === undefined ? unknownText : ageText(now - usedAt)}
      </td>
      <td class="entry-actions">
        <button
          type="button"
          class="button icon-only"
          title="Purge this URL"
          onClick={() => void purge({ kind: 'url', values: { url: uri } })}
        >
          <Icon name="change" />
          <span class="unseen">Purge {uri}</span>
        </button>
      </td>
    </tr>
  );
}
