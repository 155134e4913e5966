/** Purges what is stored, and warms URLs. */

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiFailure } from '../api.ts';
import type { WarmReport } from '../api-types.ts';
import { useApp } from '../app-context.ts';
import { parseFieldLines, parseUrlLines } from '../model/field-lines.ts';
import { countOf, sizeText } from '../model/format.ts';
import { Choices, Empty, Failure, Field, Panel, Pill, Uri } from '../parts/panel.tsx';
import { modes, type PurgeChoice, type PurgeMode, usePurge } from '../parts/use-purge.tsx';

const kinds = [
  ['url', 'URL'],
  ['prefix', 'Prefix'],
  ['host', 'Host'],
  ['tag', 'Tag'],
  ['group', 'Group'],
  ['all', 'Everything'],
] as const satisfies readonly (readonly [PurgeChoice['kind'], string])[];

const labels = {
  url: [
    'URL or path',
    'https://media.example.org/film.mp4',
    'All variants, in both schemes. With one route a path is enough.',
  ],
  prefix: ['Beginning of the URLs', 'https://media.example.org/season-2/', '“/a” also selects “/ab”, “/a/” does not.'],
  host: ['Host', 'media.example.org', 'All ports, unless one is given.'],
  tag: ['Tag', 'season-2', 'A tag of Surrogate-Key or Cache-Tag.'],
  group: ['Group', 'films', 'A group of Cache-Groups (RFC 9875).'],
} as const;

/** Shows both forms. */
export function Change(): JSX.Element {
  return (
    <div class="two">
      <PurgeForm />
      <WarmForm />
    </div>
  );
}

function PurgeForm(): JSX.Element {
  const purge = usePurge();
  const [kind, setKind] = useState<PurgeChoice['kind']>('url');
  const [mode, setMode] = useState<PurgeMode>('soft');
  const [text, setText] = useState('');
  const [origin, setOrigin] = useState('');
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const values: Record<string, string> = kind === 'all' ? {} : { [kind]: text.trim() };
    const isPurged = await purge(
      { kind, values: kind === 'group' ? { ...values, origin: origin.trim() } : values },
      mode,
    );
    if (isPurged) setText('');
  };
  return (
    <Panel title="Purge">
      <form class="form" onSubmit={(event) => void submit(event)}>
        <Choices label="By" choices={kinds} value={kind} onChoose={(chosen: PurgeChoice['kind']) => setKind(chosen)} />
        {kind === 'all' ? (
          <p class="hint">Everything that is stored, of all routes.</p>
        ) : (
          <Field label={labels[kind][0]} hint={labels[kind][2]}>
            {(id, hintId) => (
              <input
                id={id}
                aria-describedby={hintId}
                required
                spellcheck={false}
                autocomplete="off"
                placeholder={labels[kind][1]}
                value={text}
                onInput={({ currentTarget }) => setText(currentTarget.value)}
              />
            )}
          </Field>
        )}
        {kind === 'group' ? (
          <Field label="Origin of the group" hint="Scheme and host.">
            {(id, hintId) => (
              <input
                id={id}
                aria-describedby={hintId}
                required
                spellcheck={false}
                placeholder="https://media.example.org"
                value={origin}
                onInput={({ currentTarget }) => setOrigin(currentTarget.value)}
              />
            )}
          </Field>
        ) : null}
        <Choices label="How" choices={modes} value={mode} onChoose={(chosen: PurgeMode) => setMode(chosen)} />
        <button type="submit" class="button main">
          Purge…
        </button>
      </form>
    </Panel>
  );
}

/** The most URLs of one order. */
const mostUrls = 1000;

function WarmForm(): JSX.Element {
  const { api, announce } = useApp();
  const [text, setText] = useState('');
  const [fieldText, setFieldText] = useState('');
  const [failure, setFailure] = useState<string>();
  const [reports, setReports] = useState<readonly WarmReport[]>();
  const [busyWith, setBusyWith] = useState(0);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const urls = parseUrlLines(text);
    const read = parseFieldLines(fieldText);
    const fault = warmFault(urls.length, read.kind === 'fault' ? read.line : undefined);
    setFailure(fault);
    if (fault !== undefined || read.kind === 'fault') return;
    setBusyWith(urls.length);
    setReports(undefined);
    try {
      const results = await api.warm(urls, read.fields);
      setReports(results);
      const failed = results.filter(hasFailed).length;
      announce(
        failed === 0
          ? `Warmed: ${countOf(results.length, 'URL', 'URLs')}.`
          : `Warmed: ${results.length - failed} of ${countOf(results.length, 'URL', 'URLs')}.`,
        failed === 0 ? 'good' : 'bad',
      );
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure)) throw thrown;
      setFailure(thrown.message);
    } finally {
      setBusyWith(0);
    }
  };
  return (
    <Panel title="Warm">
      <form class="form" onSubmit={(event) => void submit(event)}>
        <Field
          label="URLs or paths"
          hint={`One in a line, at most ${mostUrls}. Each is fetched into the store, four at a time.`}
        >
          {(id, hintId) => (
            <textarea
              id={id}
              aria-describedby={hintId}
              rows={5}
              required
              spellcheck={false}
              placeholder="https://media.example.org/film.mp4"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          )}
        </Field>
        <Field
          label="Fields of the requests"
          hint="Where responses vary by them: one in a line, such as Accept-Encoding: br"
        >
          {(id, hintId) => (
            <textarea
              id={id}
              aria-describedby={hintId}
              rows={2}
              spellcheck={false}
              value={fieldText}
              onInput={({ currentTarget }) => setFieldText(currentTarget.value)}
            />
          )}
        </Field>
        <Failure text={failure} />
        <button type="submit" class="button main" disabled={busyWith > 0}>
          {busyWith > 0 ? `Warming ${countOf(busyWith, 'URL', 'URLs')}…` : 'Warm'}
        </button>
      </form>
      {reports === undefined ? null : <WarmResults reports={reports} />}
    </Panel>
  );
}

function warmFault(count: number, badLine: string | undefined): string | undefined {
  if (count > mostUrls) return `These are ${count} URLs; at most ${mostUrls} are warmed at once.`;
  return badLine === undefined ? undefined : `A field is “Name: value”, and this line is not: ${badLine}`;
}

function hasFailed({ status, error }: WarmReport): boolean {
  return error !== undefined || status < 200 || status >= 400;
}

/** The most results that are shown: those that failed come first. */
const shownResults = 100;

function WarmResults({ reports }: { readonly reports: readonly WarmReport[] }): JSX.Element {
  if (reports.length === 0) return <Empty>There was nothing to warm.</Empty>;
  const sorted = [...reports].sort((one, other) => Number(hasFailed(other)) - Number(hasFailed(one)));
  return (
    <ul class="list results">
      {sorted.slice(0, shownResults).map((report) => (
        <li key={report.url}>
          <Uri uri={report.url} short />
          <span class="list-note">{report.error ?? `${sizeText(report.bytes)} read`}</span>
          <Pill tone={hasFailed(report) ? 'bad' : 'good'}>{report.status === 0 ? 'failed' : report.status}</Pill>
        </li>
      ))}
      {sorted.length > shownResults ? <li>and {sorted.length - shownResults} more</li> : null}
    </ul>
  );
}
