/** The page: login or views, the header, messages and dialogs. */

import type { JSX } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Api, ApiFailure } from './api.ts';
import { AppContext, type AppParts, useLive } from './app-context.ts';
import { Live } from './live.ts';
import { clockText, countText } from './model/format.ts';
import { codeOf, formatPlace, type Place, parsePlace, type ViewName } from './model/place.ts';
import { ConfirmDialog, type OpenQuestion } from './parts/confirm.tsx';
import { Icon, type IconName, Mark } from './parts/icons.tsx';
import { applyTheme, keptTheme, type Theme, themes } from './theme.ts';
import { Change } from './views/change.tsx';
import { Entries } from './views/entries.tsx';
import { Entry } from './views/entry.tsx';
import { Explain } from './views/explain.tsx';
import { Fills } from './views/fills.tsx';
import { Login } from './views/login.tsx';
import { Overview } from './views/overview.tsx';

/** Whether the browser is logged in, as far as the page knows. */
type Session =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'away' }
  | { readonly kind: 'out'; readonly hasToken: boolean; readonly notice?: string | undefined }
  | { readonly kind: 'in' };

/** Pause before the server is asked again whether the browser is logged in, in milliseconds. */
const retryMs = 1500;

/** The whole page. */
export function App(): JSX.Element {
  const [session, setSession] = useState<Session>({ kind: 'unknown' });
  const api = useMemo(() => new Api(() => void expire()), []);
  const expire = useCallback(async () => {
    const { hasToken } = await api.readSession().catch(() => ({ hasToken: true }));
    setSession({ kind: 'out', hasToken, notice: 'Your session has ended. Log in again.' });
  }, []);

  const begin = useCallback(async (): Promise<void> => {
    const notice = await takeCode(api);
    try {
      const { loggedIn, hasToken } = await api.readSession();
      setSession(loggedIn ? { kind: 'in' } : { kind: 'out', hasToken, notice });
    } catch (thrown) {
      if (!(thrown instanceof ApiFailure)) throw thrown;
      setSession({ kind: 'away' });
      setTimeout(() => void begin(), retryMs);
    }
  }, []);
  useEffect(() => void begin(), []);
  const doubt = useCallback(async (): Promise<void> => {
    const { loggedIn } = await api.readSession().catch(() => ({ loggedIn: true }));
    if (!loggedIn) await expire();
  }, []);
  // A second link with a code may be opened in a page that is open.
  useEffect(() => {
    const onChange = (): void => {
      if (codeOf(location.hash) !== undefined) void begin();
    };
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);

  switch (session.kind) {
    case 'unknown':
      return <main class="login" />;
    case 'away':
      return (
        <main class="login">
          <p class="notice away" role="status">
            The server does not answer. Trying again…
          </p>
        </main>
      );
    case 'out':
      return (
        <Login
          hasToken={session.hasToken}
          notice={session.notice}
          onToken={async (token) => {
            await api.logIn({ token });
            setSession({ kind: 'in' });
          }}
        />
      );
    case 'in':
      return (
        <Inside api={api} onLeave={(notice) => setSession({ kind: 'out', hasToken: true, notice })} onDoubt={doubt} />
      );
  }
}

/**
 * Logs in by the one-time code in the address of the page, if there is one, and removes it from there and from the history at once.
 * Returns a sentence where the code was refused.
 */
async function takeCode(api: Api): Promise<string | undefined> {
  const code = codeOf(location.hash);
  if (code === undefined) return undefined;
  history.replaceState(null, '', location.pathname + location.search);
  try {
    await api.logIn({ code });
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof ApiFailure)) throw thrown;
    return thrown.status === 401
      ? 'The code of this link is used up or too old. Run rangeway dashboard again, or log in by a token.'
      : thrown.message;
  }
}

interface Message {
  readonly id: number;
  readonly text: string;
  readonly tone: 'good' | 'bad';
}

/** How long a good message is shown, in milliseconds. A bad one stays until it is closed. */
const messageMs = 8000;

function usePlace(): readonly [Place, AppParts['go']] {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const onChange = (): void => setPlace(parsePlace(location.hash));
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  const go = useCallback<AppParts['go']>((view, values, replaces = false) => {
    const fragment = formatPlace(view, values);
    if (!replaces) {
      location.hash = fragment;
      return;
    }
    history.replaceState(null, '', fragment);
    setPlace(parsePlace(fragment));
  }, []);
  return [place, go];
}

function Inside(props: { readonly api: Api; onLeave(notice?: string): void; onDoubt(): Promise<void> }): JSX.Element {
  const { api, onLeave, onDoubt } = props;
  const [place, go] = usePlace();
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [question, setQuestion] = useState<OpenQuestion>();
  const live = useMemo(() => new Live(() => void onDoubt()), []);
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, []);
  const close = useCallback((id: number) => setMessages((all) => all.filter((message) => message.id !== id)), []);
  const parts = useMemo<AppParts>(() => {
    let lastId = 0;
    return {
      api,
      live,
      go,
      announce(text, tone = 'good') {
        lastId += 1;
        const id = lastId;
        setMessages((all) => [...all.slice(-2), { id, text, tone }]);
        if (tone === 'good') setTimeout(() => close(id), messageMs);
      },
      confirm: (asked) =>
        new Promise((resolve) => {
          const answer = (isConfirmed: boolean): void => {
            setQuestion(undefined);
            resolve(isConfirmed);
          };
          setQuestion({ ...asked, answer });
        }),
    };
  }, []);
  const leave = async (): Promise<void> => {
    await api.logOut().catch(() => {});
    onLeave('You are logged out.');
  };
  return (
    <AppContext.Provider value={parts}>
      <Header place={place} onLeave={() => void leave()} />
      <ConnectionNotice />
      <View place={place} />
      <Messages messages={messages} onClose={close} />
      {question === undefined ? null : <ConfirmDialog question={question} />}
    </AppContext.Provider>
  );
}

/** A button and not a link: the fragment of the address names the view. */
function SkipButton(): JSX.Element {
  return (
    <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
      Skip to the content
    </button>
  );
}

const tabs = [
  ['overview', 'Overview'],
  ['fills', 'Fills'],
  ['entries', 'Entries'],
  ['explain', 'Explain'],
  ['change', 'Purge'],
] as const satisfies readonly (readonly [ViewName & IconName, string])[];

const titles: Readonly<Record<ViewName, string>> = {
  overview: 'Overview',
  fills: 'Fills',
  entries: 'Entries',
  entry: 'Entry',
  explain: 'Explain',
  change: 'Purge and warm',
};

function Header({ place, onLeave }: { readonly place: Place; onLeave(): void }): JSX.Element {
  return (
    <header class="top">
      <SkipButton />
      <a class="brand" href={formatPlace('overview')}>
        <Mark /> Rangeway
      </a>
      <nav class="tabs" aria-label="Views">
        {tabs.map(([view, label]) => {
          const isHere = place.view === view || (view === 'entries' && place.view === 'entry');
          return (
            <a key={view} href={formatPlace(view)} aria-current={isHere ? 'page' : undefined}>
              <Icon name={view} />
              <span>
                {label}
                {view === 'change' ? <span class="rather">, warm</span> : null}
              </span>
              {view === 'fills' ? <FillCount /> : null}
            </a>
          );
        })}
      </nav>
      <div class="tools">
        <LiveSign />
        <ThemeSwitch />
        <button type="button" class="button icon-only bare" title="Log out" onClick={onLeave}>
          <Icon name="leave" />
          <span class="unseen">Log out</span>
        </button>
      </div>
    </header>
  );
}

function FillCount(): JSX.Element | null {
  const { activity } = useLive();
  const count = activity?.fillCount ?? 0;
  return count === 0 ? null : (
    <span class="count">
      {countText(count)}
      <span class="unseen"> running</span>
    </span>
  );
}

const liveTexts = { connecting: 'connecting', open: 'live', away: 'no connection', paused: 'paused' } as const;

function LiveSign(): JSX.Element {
  const { activity, state } = useLive();
  const isUnready = state === 'open' && activity?.isReady === false;
  return (
    <span class={`live ${isUnready ? 'away' : state}`}>
      <span class="live-dot" aria-hidden="true" />
      {isUnready ? 'not ready' : liveTexts[state]}
    </span>
  );
}

const themeNames = { auto: 'as the system', light: 'light', dark: 'dark' } as const;

function ThemeSwitch(): JSX.Element {
  const [theme, setTheme] = useState<Theme>(keptTheme);
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto';
  return (
    <button
      type="button"
      class="button icon-only bare"
      title={`Colours: ${themeNames[theme]}. Change to: ${themeNames[next]}`}
      onClick={() => {
        applyTheme(next);
        setTheme(next);
      }}
    >
      <Icon name={theme} />
      <span class="unseen">Colours: {themeNames[theme]}</span>
    </button>
  );
}

/** Says when the server does not answer. It is there all the time, so that screen readers notice when its text changes. */
function ConnectionNotice(): JSX.Element {
  const { activity, state } = useLive();
  const since = activity === undefined ? '' : ` What you see is from ${clockText(activity.at)}.`;
  return (
    <div role="status">
      {state === 'away' ? <p class="notice away">The server does not answer.{since} Trying again…</p> : null}
    </div>
  );
}

function View({ place }: { readonly place: Place }): JSX.Element {
  const { view, values } = place;
  const { state } = useLive();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  // A new view gets the focus, so that the keyboard and screen readers begin at its start.
  useEffect(() => {
    document.title = `${titles[view]} – Rangeway`;
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
    scrollTo(0, 0);
  }, [view, values['generation']]);
  return (
    <main id="main" ref={main} tabIndex={-1} class={state === 'away' ? 'view stale' : 'view'}>
      <h1 class="unseen">{titles[view]}</h1>
      {showView(place)}
    </main>
  );
}

function showView({ view, values }: Place): JSX.Element {
  switch (view) {
    case 'overview':
      return <Overview />;
    case 'fills':
      return <Fills />;
    case 'entries':
      return <Entries values={values} />;
    case 'entry':
      return <Entry values={values} />;
    case 'explain':
      return <Explain values={values} />;
    case 'change':
      return <Change />;
  }
}

function Messages(props: { readonly messages: readonly Message[]; onClose(id: number): void }): JSX.Element {
  return (
    <div class="messages" role="status">
      {props.messages.map(({ id, text, tone }) => (
        <p key={id} class={`message ${tone}`}>
          <span>{text}</span>
          <button type="button" class="button icon-only bare" title="Close" onClick={() => props.onClose(id)}>
            <Icon name="close" />
            <span class="unseen">Close this message</span>
          </button>
        </p>
      ))}
    </div>
  );
}
