/** Draws an explanation as SVG. The same is there in words beside it, so the drawing has one label only. */

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { describeDecision } from '../../../src/cli/admin/explain-text.ts';
import { type Arrow, type Bar, type Box, drawExplanation, type Explanation } from '../model/explain-drawing.ts';

/** The drawing of an explanation, as wide as there is room. */
export function ExplainPicture({ explanation }: { readonly explanation: Explanation }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  return (
    <div ref={place} class="picture-place">
      {width === 0 ? null : <Picture explanation={explanation} width={width} />}
    </div>
  );
}

function Picture({ explanation, width }: { readonly explanation: Explanation; readonly width: number }): JSX.Element {
  const { height, boxes, arrows, bars, guides } = drawExplanation(explanation, width);
  const { decision, plan } = explanation;
  const label = `Request, key, stored response, origin: ${decision.kind}, ${describeDecision(decision)}. Status ${plan.status ?? 'not known yet'}.`;
  return (
    <svg class="picture" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {guides.map(({ points }) => (
        <polygon key={points.join(' ')} class="guide" points={points.map((point) => point.join(',')).join(' ')} />
      ))}
      {boxes.map((box) => (
        <BoxShape key={box.name} box={box} />
      ))}
      {arrows.map((arrow) => (
        <ArrowShape key={arrow.to.join(' ')} arrow={arrow} />
      ))}
      {bars.map((bar) => (
        <BarShape key={bar.y} bar={bar} />
      ))}
    </svg>
  );
}

function BoxShape({ box: { x, y, width, height, title, lines, tone } }: { readonly box: Box }): JSX.Element {
  return (
    <g class={`box tone-${tone}`}>
      <rect class="box-frame" x={x + 0.5} y={y + 0.5} width={width - 1} height={height - 1} rx={7} />
      <rect class="box-edge" x={x} y={y + 9} width={3} height={height - 18} rx={1.5} />
      <text class="box-title" x={x + 12} y={y + 20}>
        {title}
      </text>
      {lines.map(({ text, look }, at) => (
        // Lines have no identity of their own: the whole drawing is made anew.
        <text key={at} class={`box-${look}`} x={x + 12} y={y + 42 + at * 18}>
          {text}
        </text>
      ))}
    </g>
  );
}

const headPx = 6;

function ArrowShape({ arrow: { from, to, isIdle } }: { readonly arrow: Arrow }): JSX.Element {
  const [x1, y1] = from;
  const [x2, y2] = to;
  const isFlat = y1 === y2;
  const head = isFlat
    ? `${x2 - headPx},${y2 - headPx + 1} ${x2},${y2} ${x2 - headPx},${y2 + headPx - 1}`
    : `${x2 - headPx + 1},${y2 - headPx} ${x2},${y2} ${x2 + headPx - 1},${y2 - headPx}`;
  return (
    <g class={isIdle ? 'arrow idle' : 'arrow'}>
      <line x1={x1} y1={y1} x2={x2} y2={y2} />
      <polyline points={head} />
    </g>
  );
}

function BarShape({ bar: { label, x, y, width, height, segments, ends } }: { readonly bar: Bar }): JSX.Element {
  return (
    <g class="bytes">
      {label === '' ? null : (
        <text class="bytes-label" x={x} y={y - 8}>
          {label}
        </text>
      )}
      <rect class="bytes-ground" x={x} y={y} width={width} height={height} rx={3} />
      {segments.map((segment) => (
        <rect
          key={`${segment.x} ${segment.title}`}
          class={`bytes-part tone-${segment.tone}`}
          x={segment.x}
          y={y}
          width={segment.width}
          height={height}
          rx={Math.min(2, segment.width / 2)}
        >
          <title>{segment.title}</title>
        </rect>
      ))}
      {ends === undefined ? null : (
        <>
          <text class="bytes-end" x={x} y={y + height + 15}>
            {ends[0]}
          </text>
          <text class="bytes-end last" x={x + width} y={y + height + 15}>
            {ends[1]}
          </text>
        </>
      )}
    </g>
  );
}
