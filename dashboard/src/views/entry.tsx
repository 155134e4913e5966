/** One entry: its coverage map, its facts and fields, and what happened to its requests. */

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiFailure } from '../api.ts';
import type { EntryDetails, RecordedDecision } from '../api-types.ts';
import { useApp, useLive } from '../app-context.ts';
import { ageText, countText, dateText, sizeText, unknownText } from '../model/format.ts';
import { formatPlace } from '../model/place.ts';
import { CoverageMap } from '../parts/coverage-map.tsx';
import { DecisionList } from '../parts/decision-list.tsx';
import { Icon } from '../parts/icons.tsx';
import { Empty, Panel, Pill, Uri } from '../parts/panel.tsx';
import { usePurge } from '../parts/use-purge.tsx';

/** How often an entry is read while nothing arrives for it, in seconds. While something does, it is read at each event. */
const quietSeconds = 5;

/** The most decisions that are shown. */
const shownDecisions = 50;

/** Shows the entry of a key and a generation. */
export function Entry({ values }: { readonly values: Readonly<Record<string, string>> }): JSX.Element {
  const { key = '', generation = '' } = values;
  const { entry, failure, decisions } = useEntry(key, generation);
  const back = (
    <a class="back" href={formatPlace('entries')}>
      <Icon name="back" /> All entries
    </a>
  );
  if (entry === undefined) {
    return (
      <>
        {back}
        <Panel title="Entry">
          <Empty>{failure ?? 'Reading…'}</Empty>
        </Panel>
      </>
    );
  }
  return (
    <>
      {back}
      <EntryHead entry={entry} isGone={failure !== undefined} />
      <Panel title="Coverage">
        <CoverageMap
          coverage={{
            sizeBytes: entry.sizeBytes,
            present: entry.present,
            hot: entry.hot,
            arriving: entry.arriving,
          }}
        />
      </Panel>
      <div class="two">
        <Facts entry={entry} />
        <Fields entry={entry} />
      </div>
      <Panel title="Decision history" aside={<span>newest first</span>}>
        {decisions.length === 0 ? (
          <Empty>
            Nothing is remembered of this key. Misses and other special cases are always remembered for a while; plain
            hits only while a dashboard is open.
          </Empty>
        ) : (
          <DecisionList decisions={decisions} />
        )}
      </Panel>
    </>
  );
}

interface EntryReading {
  readonly entry: EntryDetails | undefined;
  readonly failure: string | undefined;
  readonly decisions: readonly RecordedDecision[];
}

/** Reads an entry again and again, at the pace of the stream: it stops where the page is hidden or the server away. */
function useEntry(key: string, generation: string): EntryReading {
  const { api } = useApp();
  const { activity, state } = useLive();
  const [entry, setEntry] = useState<EntryDetails>();
  const [failure, setFailure] = useState<string>();
  const [decisions, setDecisions] = useState<readonly RecordedDecision[]>([]);
  const at = activity?.at ?? 0;
  const isFilled = useMemo(() => activity?.fills.some((fill) => fill.key === key) ?? false, [activity, key]);
  const isArriving = isFilled || (entry?.arriving?.length ?? 0) > 0;
  const turn = isArriving ? at : Math.floor(at / (quietSeconds * 1000));
  // A new turn reads the entry again.
  useEffect(() => {
    if (state === 'paused' || state === 'away') return undefined;
    const aborting = new AbortController();
    const { signal } = aborting;
    api.inspectEntry(key, generation, signal).then(
      (read) => {
        setEntry(read);
        setFailure(undefined);
      },
      (thrown: unknown) => {
        if (thrown instanceof ApiFailure) setFailure(thrown.message);
      },
    );
    api.listDecisions({ key }, shownDecisions, signal).then(setDecisions, () => {});
    return () => aborting.abort();
  }, [api, key, generation, turn, state]);
  const isOther = entry !== undefined && (entry.key !== key || entry.generation !== generation);
  return { entry: isOther ? undefined : entry, failure, decisions };
}

function EntryHead({ entry, isGone }: { readonly entry: EntryDetails; readonly isGone: boolean }): JSX.Element {
  const { api, announce, go } = useApp();
  const { uri, isInvalid, pinnedUntil, isComplete } = entry;
  const purge = usePurge();
  const [isWarming, setWarming] = useState(false);
  const warm = async (): Promise<void> => {
    setWarming(true);
    try {
      const [report] = await api.warm([uri], []);
      if (report?.error === undefined)
        announce(`Warmed: status ${report?.status}, ${sizeText(report?.bytes ?? 0)} read.`, 'good');
      else announce(`Not warmed: ${report.error}`, 'bad');
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure)) throw thrown;
      announce(thrown.message, 'bad');
    } finally {
      setWarming(false);
    }
  };
  return (
    <section class="panel entry-head" aria-label="Entry">
      <p class="entry-uri">
        <Uri uri={uri} />
      </p>
      <p class="entry-pills">
        {isGone ? <Pill tone="bad">not stored any more</Pill> : null}
        {isComplete ? <Pill tone="here">complete</Pill> : <Pill tone="origin">in part</Pill>}
        {isInvalid ? <Pill tone="warn">to be validated</Pill> : null}
        {pinnedUntil === undefined ? null : <Pill tone="quiet">replaced, kept until {dateText(pinnedUntil)}</Pill>}
      </p>
      <div class="entry-buttons">
        <button type="button" class="button" onClick={() => go('explain', { url: uri })}>
          <Icon name="explain" /> Explain
        </button>
        <button type="button" class="button" disabled={isWarming} onClick={() => void warm()}>
          <Icon name="warm" /> {isWarming ? 'Warming…' : 'Warm'}
        </button>
        <button type="button" class="button" onClick={() => void purge({ kind: 'url', values: { url: uri } }, 'soft')}>
          <Icon name="refresh" /> Expire…
        </button>
        <button type="button" class="button" onClick={() => void purge({ kind: 'url', values: { url: uri } }, 'hard')}>
          <Icon name="change" /> Remove…
        </button>
      </div>
    </section>
  );
}

function Facts({ entry }: { readonly entry: EntryDetails }): JSX.Element {
  const { live } = useApp();
  const now = live.activity?.at ?? Date.now();
  const { status, contentType, sizeBytes, presentBytes, responseAt, usedAt, etag, lastModified, tags } = entry;
  const { scope, variant, generation, nominated } = entry;
  return (
    <Panel title="Facts">
      <dl class="facts">
        <Fact name="Status">{status}</Fact>
        <Fact name="Type">{contentType ?? unknownText}</Fact>
        <Fact name="Length">
          {sizeText(sizeBytes)} <span class="why">{countText(sizeBytes)} bytes</span>
        </Fact>
        <Fact name="Stored">
          {sizeText(presentBytes)} <span class="why">{countText(presentBytes)} bytes</span>
        </Fact>
        <Fact name="Received">
          {dateText(responseAt)} <span class="why">{ageText(now - responseAt)} ago</span>
        </Fact>
        <Fact name="Last used">
          {usedAt === undefined ? (
            'not known'
          ) : (
            <>
              {dateText(usedAt)} <span class="why">{ageText(now - usedAt)} ago</span>
            </>
          )}
        </Fact>
        <Fact name="ETag">{etag === undefined ? unknownText : <code>{etag}</code>}</Fact>
        <Fact name="Last-Modified">{lastModified ?? unknownText}</Fact>
        <Fact name="Tags">{tags.length === 0 ? 'none' : tags.join(' ')}</Fact>
        <Fact name="Selected by">
          {nominated.length === 0
            ? 'nothing: one variant'
            : nominated.map(([name, value]) => `${name}: ${value ?? '(not sent)'}`).join(', ')}
        </Fact>
        <Fact name="Scope">
          <code>{scope}</code>
        </Fact>
        {variant === '' ? null : (
          <Fact name="Variant">
            <code>{variant}</code>
          </Fact>
        )}
        <Fact name="Generation">
          <code>{generation}</code>
        </Fact>
      </dl>
    </Panel>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Fields({ entry: { fields } }: { readonly entry: EntryDetails }): JSX.Element {
  return (
    <Panel title="Stored fields">
      <dl class="facts">
        {fields.map(([name, value], at) => (
          // A name may occur more than once.
          <div key={`${name} ${at}`}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>
              <code>{value}</code>
            </dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}
