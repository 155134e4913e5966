/** The page that asks for a token. */

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../api.ts';
import { Mark } from '../parts/icons.tsx';
import { Failure, Field } from '../parts/panel.tsx';

/** Asks for a token and hands it to `onToken`, which rejects where it is wrong. `notice`: why the page is shown again. */
export function Login(props: {
  readonly hasToken: boolean;
  readonly notice: string | undefined;
  onToken(token: string): Promise<void>;
}): JSX.Element {
  const { hasToken, notice, onToken } = props;
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      await onToken(input.current?.value ?? '');
    } catch (thrown) {
      setFailure(loginFailure(thrown));
      input.current?.select();
    } finally {
      setBusy(false);
    }
  };

  return (
    <main class="login" id="main" tabIndex={-1}>
      <form class="login-card" onSubmit={(event) => void submit(event)}>
        <h1>
          <Mark /> Rangeway
        </h1>
        {notice === undefined ? null : (
          <p class="login-notice" role="status">
            {notice}
          </p>
        )}
        {hasToken ? (
          <>
            {/* Password managers look for a name beside a password. */}
            <input type="text" name="username" autocomplete="username" value="operator" readOnly hidden />
            <Field
              label="Token of the admin listener"
              hint={
                <>
                  It is the value of <code>admin.token</code> in the configuration.
                </>
              }
            >
              {(id, hintId) => (
                <input
                  ref={input}
                  id={id}
                  aria-describedby={hintId}
                  type="password"
                  name="token"
                  autocomplete="current-password"
                  required
                />
              )}
            </Field>
            <Failure text={failure} />
            <button type="submit" class="button main wide" disabled={isBusy}>
              {isBusy ? 'Logging in…' : 'Log in'}
            </button>
          </>
        ) : (
          <p>This server has no token to log in with.</p>
        )}
        <p class="hint">
          {hasToken ? 'Or without a token: run' : 'Run'} <code>rangeway dashboard</code> on the server's machine, as the
          user that runs Rangeway. It prints a link that logs you in.
        </p>
      </form>
    </main>
  );
}

function loginFailure(thrown: unknown): string {
  if (!(thrown instanceof ApiFailure)) throw thrown;
  return thrown.status === 401 ? 'This is not the token.' : thrown.message;
}
