/** The running fills: progress, speed and time left of each, and a button that stops it. */

import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api.ts';
import type { FillStatus } from '../api-types.ts';
import { useApp, useLive } from '../app-context.ts';
import { ageText, byteRateText, countOf, countText, percentText, sizeText } from '../model/format.ts';
import { formatPlace } from '../model/place.ts';
import { SpeedMeter, timeLeftMs, timeLeftText } from '../model/speed.ts';
import { windowOf } from '../model/window.ts';
import { Icon } from '../parts/icons.tsx';
import { Empty, Field, OfThisMachine, Panel, Uri } from '../parts/panel.tsx';

/** Shows all running fills. However many there are, only the rows in view are in the document. */
export function Fills(): JSX.Element {
  const { activity } = useLive();
  const [text, setText] = useState('');
  if (activity === undefined) return <Empty>Waiting for the first reading of the server…</Empty>;
  const { fills, fillCount, at } = activity;
  const wanted = text.trim().toLowerCase();
  const found = wanted === '' ? fills : fills.filter(({ uri }) => uri.toLowerCase().includes(wanted));
  const listed = fills.length < fillCount ? `the ${countText(fills.length)} longest-running of ` : '';
  return (
    <Panel
      title="Running fills"
      aside={
        <span>
          {listed}
          {countOf(fillCount, 'fill', 'fills')}
        </span>
      }
    >
      {activity.store.isShared ? <OfThisMachine /> : null}
      {fillCount === 0 ? (
        <Empty>
          No transfer from an origin is running. One starts when a client asks for bytes that are not stored, or when
          you <a href={formatPlace('change')}>warm a URL</a>.
        </Empty>
      ) : (
        <>
          <div class="bar-of-fields">
            <Field label="Find in the URI">
              {(id) => (
                <input
                  id={id}
                  type="search"
                  value={text}
                  onInput={({ currentTarget }) => setText(currentTarget.value)}
                />
              )}
            </Field>
          </div>
          {found.length === 0 ? (
            <Empty>No running fill has “{text}” in its URI.</Empty>
          ) : (
            <WindowedFills fills={found} at={at} />
          )}
        </>
      )}
    </Panel>
  );
}

/** Height of a row before the page was laid out, in pixels. */
const firstRowPx = 52;

function WindowedFills({ fills, at }: { readonly fills: readonly FillStatus[]; readonly at: number }): JSX.Element {
  const view = useRef<HTMLElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const [sizes, setSizes] = useState({ rowPx: firstRowPx, viewPx: 600 });
  useLayoutEffect(() => {
    const element = view.current;
    if (element === null) return undefined;
    const measure = (): void => {
      const rowPx = element.querySelector('tbody tr.fill')?.getBoundingClientRect().height ?? firstRowPx;
      setSizes({ rowPx, viewPx: element.clientHeight });
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const { start, end, beforePx, afterPx } = windowOf(fills.length, sizes.rowPx, scrolled, sizes.viewPx);
  return (
    <section
      ref={view}
      class="scroll fills-view"
      aria-label="Fills, longest-running first"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by the keyboard
      tabIndex={0}
      onScroll={({ currentTarget }) => setScrolled(currentTarget.scrollTop)}
    >
      <FillRows
        fills={fills.slice(start, end)}
        at={at}
        first={start}
        count={fills.length}
        beforePx={beforePx}
        afterPx={afterPx}
      />
    </section>
  );
}

/** A table of fills, which are rows of a longer table from `first` on. */
export function FillRows(props: {
  readonly fills: readonly FillStatus[];
  readonly at: number;
  readonly first: number;
  readonly count: number;
  readonly beforePx?: number;
  readonly afterPx?: number;
}): JSX.Element {
  const { fills, at, first, count, beforePx = 0, afterPx = 0 } = props;
  return (
    <table class="table fills" aria-rowcount={count + 1}>
      <caption class="unseen">Running fills, longest-running first</caption>
      <thead>
        <tr aria-rowindex={1}>
          <th scope="col">URI</th>
          <th scope="col" class="fill-progress">
            Progress
          </th>
          <th scope="col" class="number rather">
            Speed
          </th>
          <th scope="col" class="number rather">
            Left
          </th>
          <th scope="col" class="number rather">
            Readers
          </th>
          <th scope="col" class="number rather">
            Worker
          </th>
          <th scope="col" class="fill-stop">
            <span class="unseen">Stop</span>
          </th>
        </tr>
      </thead>
      <Spacer px={beforePx} />
      <tbody>
        {fills.map((fill, place) => (
          <FillRow key={fill.id} fill={fill} at={at} index={first + place + 2} />
        ))}
      </tbody>
      <Spacer px={afterPx} />
    </table>
  );
}

function Spacer({ px }: { readonly px: number }): JSX.Element | null {
  if (px === 0) return null;
  return (
    <tbody aria-hidden="true" class="spacer">
      <tr>
        <td colSpan={7} style={{ height: `${px}px` }} />
      </tr>
    </tbody>
  );
}

function FillRow({ fill, at, index }: { readonly fill: FillStatus; at: number; index: number }): JSX.Element {
  const meter = useRef<SpeedMeter>(undefined);
  meter.current ??= new SpeedMeter(fill);
  const speed = meter.current.add(at, fill.receivedBytes);
  const { key, generation, uri, sizeBytes, receivedBytes, readers, worker, startedAt } = fill;
  const left = timeLeftMs(fill, speed);
  const leftText =
    left === undefined ? (sizeBytes !== undefined && speed === 0 ? 'stands still' : '') : timeLeftText(left);
  const share = sizeBytes === undefined || sizeBytes === 0 ? undefined : receivedBytes / sizeBytes;
  return (
    <tr class="fill" aria-rowindex={index}>
      <th scope="row" class="what">
        <a href={formatPlace('entry', { key, generation })}>
          <Uri uri={uri} short />
        </a>
        <span class="below">
          for {ageText(Math.max(1000, at - startedAt))}
          <span class="narrow-only">
            , {byteRateText(speed)}
            {leftText === '' ? '' : `, ${leftText}${left === undefined ? '' : ' left'}`}
          </span>
        </span>
      </th>
      <td class="fill-progress">
        {share === undefined ? (
          <progress class="bar arriving" aria-label="Progress: the length is not known" />
        ) : (
          <progress class="bar arriving" max={1} value={Math.min(1, share)} aria-label="Progress" />
        )}
        <span class="below">
          {share === undefined
            ? `${sizeText(receivedBytes)}, length unknown`
            : `${percentText(share)}, ${sizeText(receivedBytes)} of ${sizeText(sizeBytes ?? 0)}`}
        </span>
      </td>
      <td class="number rather">{byteRateText(speed)}</td>
      <td class="number rather">{leftText}</td>
      <td class="number rather">{countText(readers)}</td>
      <td class="number rather">{worker}</td>
      <td class="fill-stop">
        <StopButton fill={fill} />
      </td>
    </tr>
  );
}

function StopButton({ fill: { id, uri, readers } }: { readonly fill: FillStatus }): JSX.Element {
  const { api, announce, confirm } = useApp();
  const [isStopped, setStopped] = useState(false);
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  const stop = async (): Promise<void> => {
    const isConfirmed = await confirm({
      title: 'Stop this fill?',
      action: 'Stop the fill',
      isGrave: true,
      body: (
        <>
          <p>
            <Uri uri={uri} />
          </p>
          <p>
            {readers === 0
              ? 'No client reads it. What is stored of it stays.'
              : `${countOf(readers, 'client that reads it is', 'clients that read it are')} disconnected. What is stored of it stays.`}
          </p>
        </>
      ),
    });
    if (!isConfirmed) return;
    try {
      await api.cancelFill(id);
      if (isHere.current) setStopped(true);
      announce('The fill was stopped.', 'good');
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure)) throw thrown;
      announce(thrown.message, 'bad');
    }
  };
  return (
    <button
      type="button"
      class="button icon-only"
      disabled={isStopped}
      title="Stop this fill"
      onClick={() => void stop()}
    >
      <Icon name="stop" />
      <span class="unseen">Stop the fill of {uri}</span>
    </button>
  );
}
