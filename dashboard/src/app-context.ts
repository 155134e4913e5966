/** What every view can use. */

import { createContext } from 'preact';
import { useContext, useEffect, useReducer } from 'preact/hooks';
import type { Api } from './api.ts';
import type { Activity } from './api-types.ts';
import type { Live, LiveState } from './live.ts';
import type { ViewName } from './model/place.ts';
import type { Question } from './parts/confirm.tsx';

/** The parts of the page that views use. */
export interface AppParts {
  readonly api: Api;
  readonly live: Live;
  /** Goes to a view. `replaces`: the back key does not come back to the present place. */
  go(view: ViewName, values?: Readonly<Record<string, string | undefined>>, replaces?: boolean): void;
  /** Shows a message, which screen readers read out. */
  announce(text: string, tone?: 'good' | 'bad'): void;
  /** Asks for a confirmation; resolves with whether it was given. */
  confirm(question: Question): Promise<boolean>;
}

/** Provides the parts. */
export const AppContext = createContext<AppParts | undefined>(undefined);

/** Returns the parts of the page. */
export function useApp(): AppParts {
  const parts = useContext(AppContext);
  if (parts === undefined) throw new Error('there is no app around this component');
  return parts;
}

/** The newest reading, and the state of the stream. */
export interface LiveView {
  readonly activity: Activity | undefined;
  readonly state: LiveState;
}

/** Renders the component again at each event of the stream. */
export function useLive(): LiveView {
  const { live } = useApp();
  const [, renderAgain] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => live.subscribe(() => renderAgain()), [live]);
  return { activity: live.activity, state: live.state };
}
