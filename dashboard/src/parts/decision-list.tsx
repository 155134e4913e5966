/** What happened to requests, and to what is stored, as a table: the newest first. */

import type { JSX } from 'preact';
import type { KeyEvent, RecordedDecision, RequestDecision } from '../api-types.ts';
import { clockText, latencyText, sizeText } from '../model/format.ts';
import { Pill, type PillTone, Uri } from './panel.tsx';

const outcomeTones: Readonly<Record<string, PillTone>> = {
  hit: 'here',
  stale: 'here',
  revalidated: 'here',
  miss: 'origin',
  uncacheable: 'origin',
  failed: 'bad',
  none: 'quiet',
};

/** Lists decisions. `withUri`: they are of several URIs, which are shown. */
export function DecisionList(props: {
  readonly decisions: readonly RecordedDecision[];
  readonly withUri?: boolean;
}): JSX.Element {
  const { decisions, withUri = false } = props;
  return (
    <div class="scroll">
      <table class="table decisions">
        <caption class="unseen">Decisions, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Outcome</th>
            <th scope="col">{withUri ? 'Request' : 'Range'}</th>
            <th scope="col" class="number">
              Status
            </th>
            <th scope="col" class="number rather">
              Sent
            </th>
            <th scope="col" class="number rather">
              From origin
            </th>
            <th scope="col" class="number rather">
              Latency
            </th>
          </tr>
        </thead>
        <tbody>
          {decisions.map((decision, at) =>
            'event' in decision ? (
              <EventRow key={`${decision.at} ${at}`} event={decision} />
            ) : (
              <RequestRow key={`${decision.at} ${at}`} decision={decision} withUri={withUri} />
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}

function RequestRow({ decision, withUri }: { decision: RequestDecision; withUri: boolean }): JSX.Element {
  const { at, method, uri, range, status, outcome, reason, collapsed, apartBy, error } = decision;
  const { originBytes, sentBytes, headMs } = decision;
  const whys = [
    error ?? reason ?? '',
    collapsed ? 'waited for another request' : '',
    apartBy === undefined ? '' : `differs in ${apartBy.join(', ')}`,
  ].filter((why) => why !== '');
  return (
    <tr>
      <td class="time">{clockText(at)}</td>
      <td class="outcome">
        <Pill tone={error === undefined ? (outcomeTones[outcome] ?? 'quiet') : 'bad'}>{outcome}</Pill>
        {whys.length === 0 ? null : <span class="why">{whys.join('; ')}</span>}
      </td>
      <td class="what">
        {method === 'GET' ? null : <b>{method} </b>}
        {withUri ? <Uri uri={uri} short /> : null}
        {range === undefined ? withUri ? null : <span class="why">the whole</span> : <code>{range}</code>}
      </td>
      <td class="number">{status}</td>
      <td class="number rather">{sizeText(sentBytes)}</td>
      <td class="number rather">{originBytes === 0 ? '' : sizeText(originBytes)}</td>
      <td class="number rather">{latencyText(headMs)}</td>
    </tr>
  );
}

function EventRow({ event }: { readonly event: KeyEvent }): JSX.Element {
  return (
    <tr class="event">
      <td class="time">{clockText(event.at)}</td>
      <td>
        <Pill tone="quiet">{event.event}</Pill>
      </td>
      <td class="what" colSpan={5}>
        {event.detail}
      </td>
    </tr>
  );
}
