/** The overview: what the server does now, and what it did in the last minutes. */

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Activity, OriginStatus, RecordedDecision } from '../api-types.ts';
import { useApp, useLive } from '../app-context.ts';
import {
  byteRateText,
  countOf,
  countText,
  durationText,
  latencyText,
  percentText,
  rateText,
  ratioText,
  sizeText,
  unknownText,
} from '../model/format.ts';
import {
  amplification,
  type History,
  hitRatioByBytes,
  hitRatioByRequests,
  type Interval,
  latencyAt,
  requestCount,
} from '../model/history.ts';
import type { Percentile } from '../model/latency.ts';
import { groupOrigins, type OriginGroup } from '../model/origins.ts';
import { formatPlace } from '../model/place.ts';
import { Chart } from '../parts/chart.tsx';
import { DecisionList } from '../parts/decision-list.tsx';
import { Bar, Choices, Empty, OfThisMachine, Panel, Pill, Uri } from '../parts/panel.tsx';
import { FillRows } from './fills.tsx';

/** Rates are means of this time, in milliseconds: short enough to follow, long enough to be read. */
const rateMs = 5000;

/** Ratios and percentiles are of this time, in milliseconds. */
const ratioMs = 60_000;

const spans = [
  ['60', '1 min'],
  ['300', '5 min'],
  ['900', '15 min'],
] as const;

type SpanName = (typeof spans)[number][0];

/** Shows the overview. */
export function Overview(): JSX.Element {
  const { live } = useApp();
  const { activity } = useLive();
  const [span, setSpan] = useState<SpanName>('300');
  if (activity === undefined) return <Empty>Waiting for the first reading of the server…</Empty>;
  return (
    <div class="overview">
      {activity.store.isShared ? <OfThisMachine /> : null}
      <Figures activity={activity} history={live.history} />
      <div class="charts-head">
        <Choices
          label="Time of the charts"
          isSmall
          choices={spans}
          value={span}
          onChoose={(chosen: SpanName) => setSpan(chosen)}
        />
      </div>
      <Charts activity={activity} history={live.history} span={Number(span)} />
      <div class="main-column">
        <FillsPanel activity={activity} />
        <DecisionsPanel />
      </div>
      <div class="side-column">
        <StorePanel activity={activity} />
        <OriginsPanel origins={activity.origins} />
        <WorkersPanel activity={activity} />
        <HottestPanel activity={activity} />
      </div>
    </div>
  );
}

function Figures({ activity, history }: { readonly activity: Activity; readonly history: History }): JSX.Element {
  const now = history.since(rateMs);
  const minute = history.since(ratioMs);
  const { requests, connectionsOpen } = activity;
  const per = (count: (interval: Interval) => number) => (now === undefined ? undefined : count(now) / now.seconds);
  const of = <T,>(read: (interval: Interval) => T | undefined) => (minute === undefined ? undefined : read(minute));
  return (
    <section class="panel figures" aria-label="Figures">
      <Figure
        label="Requests"
        value={rateText(per(requestCount))}
        unit="/s"
        note={`${countText(requests.inFlight)} in flight, ${countOf(connectionsOpen, 'client', 'clients')}`}
      />
      <Figure
        label="Throughput"
        value={byteRateText(per(({ sentBytes }) => sentBytes))}
        note={`${byteRateText(per(({ originBytes }) => originBytes))} from origins`}
      />
      <Figure label="Hits, by requests" value={percentText(of(hitRatioByRequests))} note="of the last minute" />
      <Figure label="Hits, by bytes" value={percentText(of(hitRatioByBytes))} note="of the last minute" />
      <Figure label="Amplification" value={ratioText(of(amplification))} note="origin bytes for each byte sent" />
      <div class="figure">
        <h2>Latency, last minute</h2>
        <dl class="percentiles">
          {([0.5, 0.95, 0.99] as const).map((share) => (
            <div key={share}>
              <dt>p{share * 100}</dt>
              <dd>{percentileText(of((interval) => latencyAt(interval, share)))}</dd>
            </div>
          ))}
        </dl>
      </div>
    </section>
  );
}

function Figure(props: {
  readonly label: string;
  readonly value: string;
  readonly unit?: string;
  readonly note: ComponentChildren;
}): JSX.Element {
  return (
    <div class="figure">
      <h2>{props.label}</h2>
      <p class="figure-value">
        {props.value}
        {props.unit === undefined ? null : <small>{props.unit}</small>}
      </p>
      <p class="figure-note">{props.note}</p>
    </div>
  );
}

function percentileText(found: Percentile | undefined): string {
  if (found === undefined) return unknownText;
  const sign = { within: '', below: '<', above: '>' }[found.kind];
  return `${sign}${latencyText(found.ms)}`;
}

function Charts(props: { readonly activity: Activity; readonly history: History; readonly span: number }): JSX.Element {
  const { activity, history, span } = props;
  const { columns } = history;
  const end = activity.at / 1000;
  // A young history is not drawn at the edge of an empty chart.
  const age = end - (columns.seconds[0] ?? end);
  const shared = { seconds: columns.seconds, end, span: Math.min(span, Math.max(60, age)) };
  const minute = history.since(ratioMs);
  const of = <T,>(read: (interval: Interval) => T | undefined) => (minute === undefined ? undefined : read(minute));
  const latencies = ([0.5, 0.95, 0.99] as const).map(
    (share) => `p${share * 100} ${percentileText(of((interval) => latencyAt(interval, share)))}`,
  );
  return (
    <div class="charts">
      <Chart
        {...shared}
        title="Throughput"
        scale="linear"
        format={byteRateText}
        lines={[
          { label: 'sent to clients', color: '--sent', values: columns.sent, isFilled: true },
          { label: 'from origins', color: '--origin', values: columns.fromOrigin, dash: [5, 3] },
        ]}
        summary={`in the last minute ${byteRateText(of(({ sentBytes, seconds }) => sentBytes / seconds))} sent, ${byteRateText(of(({ originBytes, seconds }) => originBytes / seconds))} from origins`}
      />
      <Chart
        {...shared}
        title="Requests"
        scale="linear"
        format={(value) => `${rateText(value)}/s`}
        lines={[
          { label: 'hits', color: '--sent', values: columns.hits, isFilled: true },
          { label: 'misses', color: '--origin', values: columns.misses, dash: [5, 3] },
          { label: 'other', color: '--third', values: columns.others, dash: [2, 3] },
        ]}
        summary={`in the last minute ${rateText(of((interval) => requestCount(interval) / interval.seconds))} per second, ${percentText(of(hitRatioByRequests))} of them hits`}
      />
      <Chart
        {...shared}
        title="Hit ratio"
        scale="share"
        format={percentText}
        lines={[
          { label: 'by requests', color: '--sent', values: columns.byRequests },
          { label: 'by bytes', color: '--third', values: columns.byBytes, dash: [5, 3] },
        ]}
        summary={`in the last minute ${percentText(of(hitRatioByRequests))} of the requests, ${percentText(of(hitRatioByBytes))} of the bytes`}
      />
      <Chart
        {...shared}
        title="Latency"
        scale="log"
        format={latencyText}
        lines={[
          { label: 'p50', color: '--sent', values: columns.p50 },
          { label: 'p95', color: '--third', values: columns.p95, dash: [5, 3] },
          { label: 'p99', color: '--origin', values: columns.p99, dash: [2, 3] },
        ]}
        summary={`in the last minute ${latencies.join(', ')}`}
      />
    </div>
  );
}

/** The most fills of the overview. */
const shownFills = 5;

function FillsPanel({ activity }: { readonly activity: Activity }): JSX.Element {
  const { fills, fillCount } = activity;
  return (
    <Panel
      title={fillCount === 0 ? 'Fills' : `Fills: ${countText(fillCount)} running`}
      aside={fillCount > shownFills ? <a href={formatPlace('fills')}>all fills</a> : undefined}
    >
      {fillCount === 0 ? (
        <Empty>
          No transfer from an origin is running. One starts when a client asks for bytes that are not stored.
        </Empty>
      ) : (
        <FillRows
          fills={fills.slice(0, shownFills)}
          at={activity.at}
          first={0}
          count={Math.min(fillCount, shownFills)}
        />
      )}
    </Panel>
  );
}

function StorePanel({ activity: { store } }: { readonly activity: Activity }): JSX.Element {
  const { entries, memoryBytes, memoryLimitBytes, diskBytes, diskLimitBytes, isShared } = store;
  return (
    <Panel title="Store" aside={<a href={formatPlace('entries')}>{countOf(entries, 'entry', 'entries')}</a>}>
      {entries === 0 ? (
        <Empty>Nothing is stored yet: the first response that may be stored appears here.</Empty>
      ) : (
        <dl class="usages">
          {typeof diskBytes === 'number' && typeof diskLimitBytes === 'number' ? (
            <Usage label={isShared ? 'Engine, of all machines' : 'Disk'} used={diskBytes} limit={diskLimitBytes} />
          ) : null}
          <Usage label="Memory" used={memoryBytes} limit={memoryLimitBytes} />
        </dl>
      )}
    </Panel>
  );
}

function Usage({ label, used, limit }: { label: string; used: number; limit: number }): JSX.Element {
  const share = limit === 0 ? undefined : used / limit;
  return (
    <div class="usage">
      <dt>{label}</dt>
      <dd>
        {sizeText(used)}
        {share === undefined ? null : ` of ${sizeText(limit)}`}
      </dd>
      {share === undefined ? null : (
        <dd class="usage-bar">
          <Bar share={share} tone="here" label={`${label} in use: ${percentText(share)}`} />
        </dd>
      )}
    </div>
  );
}

const healthPills = {
  well: ['good', 'healthy'],
  ill: ['warn', 'on trial'],
  resting: ['bad', 'resting'],
} as const;

const rangeTexts = { yes: 'gives ranges', no: 'no ranges', unknown: 'ranges: not known yet' } as const;

function OriginsPanel({ origins }: { readonly origins: readonly OriginStatus[] }): JSX.Element {
  const groups = groupOrigins(origins);
  return (
    <Panel title="Origins">
      {groups.length === 0 ? (
        <Empty>No worker has reported its origins yet.</Empty>
      ) : (
        <ul class="list">
          {groups.map((group) => (
            <OriginRow key={`${group.route} ${group.url}`} group={group} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** What holds the connections to an origin; only what is there. */
function requestsText(requests: OriginGroup['requests']): string {
  const parts = Object.entries(requests).filter(([, count]) => count > 0);
  return parts.length === 0 ? 'no requests' : parts.map(([use, count]) => `${count} ${use}`).join(', ');
}

function OriginRow({
  group: { route, url, health, ranges, worst, workers, requests },
}: {
  readonly group: OriginGroup;
}): JSX.Element {
  const [tone, word] = healthPills[health];
  const some = worst < workers ? ` (${worst} of ${workers} workers)` : '';
  return (
    <li>
      <Uri uri={url} />
      <Pill tone={tone}>
        {word}
        {some}
      </Pill>
      <span class="list-note">
        route {route}, {rangeTexts[ranges]}, {requestsText(requests)}
      </span>
    </li>
  );
}

const stateTones: Readonly<Record<string, 'good' | 'warn' | 'bad' | 'quiet'>> = {
  serving: 'good',
  starting: 'warn',
  stopping: 'warn',
  silent: 'bad',
  away: 'bad',
};

function WorkersPanel({ activity: { workers, startedAt, at, isReady } }: { readonly activity: Activity }): JSX.Element {
  return (
    <Panel title="Workers" aside={<span>{isReady ? `up ${durationText(at - startedAt)}` : 'not ready'}</span>}>
      <ul class="list">
        {workers.map(({ id, pid, state }) => (
          <li key={id}>
            <span>worker {id}</span>
            <span class="list-note">process {pid}</span>
            <Pill tone={stateTones[state] ?? 'quiet'}>{state}</Pill>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** The most rows of this list. */
const shownHottest = 8;

function HottestPanel({ activity: { hottest } }: { readonly activity: Activity }): JSX.Element {
  const most = hottest[0]?.hits ?? 1;
  return (
    <Panel title="Most requested" aside={<span>about the last minute</span>}>
      {hottest.length === 0 ? (
        <Empty>No request has been answered since this page was opened.</Empty>
      ) : (
        <ul class="list">
          {hottest.slice(0, shownHottest).map(({ uri, hits, bytes }) => (
            <li key={uri} class="with-bar">
              <a href={formatPlace('entries', { by: 'url', text: uri })}>
                <Uri uri={uri} short />
              </a>
              <span class="list-note number">
                {countText(hits)} · {sizeText(bytes)}
              </span>
              <Bar share={hits / most} label={`${countText(hits)} requests`} tone="here" />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** How often the list of decisions is read, in milliseconds. */
const decisionsMs = 3000;
const shownDecisions = 12;

function DecisionsPanel(): JSX.Element {
  const { api } = useApp();
  const { activity, state } = useLive();
  const [decisions, setDecisions] = useState<readonly RecordedDecision[]>();
  // The stream gives the pace: none is read while the page is hidden or the server is away.
  const turn = useMemo(() => Math.floor((activity?.at ?? 0) / decisionsMs), [activity?.at]);
  useEffect(() => {
    if (state !== 'open') return undefined;
    const aborting = new AbortController();
    api.listDecisions({}, shownDecisions, aborting.signal).then(setDecisions, () => {});
    return () => aborting.abort();
  }, [api, turn, state]);
  return (
    <Panel title="Latest decisions" aside={<span>newest first</span>}>
      {decisions === undefined || decisions.length === 0 ? (
        <Empty>
          {decisions === undefined
            ? 'Reading…'
            : 'No request has been decided yet. While this page is open, each request appears here, with the reason for what it got.'}
        </Empty>
      ) : (
        <DecisionList decisions={decisions} withUri />
      )}
    </Panel>
  );
}
