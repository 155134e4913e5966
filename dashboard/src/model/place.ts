/** The places of the page. Each has an address in the fragment of the URL, so that it can be linked to, and the back key works. */

/** The views of the page. */
export const viewNames = ['overview', 'fills', 'entries', 'entry', 'explain', 'change'] as const;

/** A view. */
export type ViewName = (typeof viewNames)[number];

/** A view, and what it shows. */
export interface Place {
  readonly view: ViewName;
  readonly values: Readonly<Record<string, string>>;
}

/** Reads the fragment of a URL, with or without `#`. An unknown one is the overview. */
export function parsePlace(fragment: string): Place {
  const [path = '', query = ''] = fragment.replace(/^#?\/?/, '').split('?', 2);
  const view = viewNames.find((name) => name === path) ?? 'overview';
  return { view, values: Object.fromEntries(new URLSearchParams(query)) };
}

/** Formats a place as a fragment. Empty values are left out. */
export function formatPlace(view: ViewName, values: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(values).filter((pair): pair is [string, string] => (pair[1] ?? '') !== '');
  const query = new URLSearchParams(given).toString();
  return `#/${view === 'overview' ? '' : view}${query === '' ? '' : `?${query}`}`;
}

/** Returns the one-time code of a fragment such as `#code=…`; undefined where it has none. */
export function codeOf(fragment: string): string | undefined {
  return /^#code=([\w.~-]+)$/.exec(fragment)?.[1];
}
