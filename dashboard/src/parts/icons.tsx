/** Icons. They are decoration: a label always stands beside them, or is the name of their button. */

import type { JSX } from 'preact';

const paths = {
  overview: 'M3 13h4l2-7 4 12 2-5h6',
  fills: 'M12 3v11m0 0 4-4m-4 4-4-4M4 19h16',
  entries: 'M4 6h16M4 12h16M4 18h16',
  explain: 'M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Zm5-1.5 5 5',
  change: 'M5 7h14M9 7V4h6v3m-8 0 1 13h8l1-13',
  auto: 'M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16Z',
  light:
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm0-5v2m0 14v2M3 12h2m14 0h2M5.6 5.6 7 7m10 10 1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4',
  dark: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z',
  leave: 'M14 4H5v16h9M10 12h11m0 0-4-4m4 4-4 4',
  close: 'M6 6l12 12M18 6 6 18',
  stop: 'M7 7h10v10H7Z',
  back: 'M19 12H5m0 0 6-6m-6 6 6 6',
  refresh: 'M20 11a8 8 0 1 0-2 6m2-12v6h-6',
  warm: 'M12 3c1 4 5 5 5 10a5 5 0 0 1-10 0c0-2 1-3 2-4 0 2 1 3 2 3 1-3-1-5 1-9Z',
} as const;

/** The name of an icon. */
export type IconName = keyof typeof paths;

/** Draws an icon in the colour of the text. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} class={name === 'stop' ? 'filled' : ''} />
      {name === 'auto' ? <path d="M12 4a8 8 0 0 1 0 16Z" class="filled" /> : null}
    </svg>
  );
}

/** The mark of Rangeway: a part of a whole. */
export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark-ground" />
      <rect x="6" y="8" width="20" height="4" rx="2" class="mark-far" />
      <rect x="11" y="14" width="10" height="4" rx="2" class="mark-near" />
      <rect x="6" y="20" width="20" height="4" rx="2" class="mark-far" />
    </svg>
  );
}
