/** Asks how a request would be answered, and draws the answer. */

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { explanationSections } from '../../../src/cli/admin/explain-text.ts';
import { replaceTerminalControls } from '../../../src/cli/text-sections.ts';
import { ApiFailure, type ExplainQuestion } from '../api.ts';
import type { ExplainReply } from '../api-types.ts';
import { useApp } from '../app-context.ts';
import type { Explanation } from '../model/explain-drawing.ts';
import { completeRange, parseFieldLines } from '../model/field-lines.ts';
import { ExplainPicture } from '../parts/explain-picture.tsx';
import { Empty, Failure, Field, Panel } from '../parts/panel.tsx';

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS'] as const;

/** Shows the form, and the explanation of the request in the address of the page. */
export function Explain({ values }: { readonly values: Readonly<Record<string, string>> }): JSX.Element {
  const { api, go } = useApp();
  const { url = '', range = '', method = 'GET', fields = '', client = '' } = values;
  const [reply, setReply] = useState<ExplainReply>();
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const [turn, setTurn] = useState(0);

  // A new turn asks the same question again.
  useEffect(() => {
    setFailure(undefined);
    if (url === '') return undefined;
    const question = questionOf({ url, range, method, fields, client });
    if (typeof question === 'string') {
      setFailure(question);
      return undefined;
    }
    const aborting = new AbortController();
    setBusy(true);
    api
      .explain(question, aborting.signal)
      .then(setReply, (thrown: unknown) => {
        if (!(thrown instanceof ApiFailure)) return;
        setReply(undefined);
        setFailure(thrown.message);
      })
      .finally(() => {
        if (!aborting.signal.aborted) setBusy(false);
      });
    return () => aborting.abort();
  }, [api, url, range, method, fields, client, turn]);

  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = Object.fromEntries(
      [...new FormData(event.currentTarget as HTMLFormElement)].map(([name, value]) => [name, String(value)]),
    );
    setTurn(turn + 1);
    go('explain', { ...given, method: given['method'] === 'GET' ? '' : given['method'] }, true);
  };

  return (
    <>
      <Panel title="Explain a request">
        <form class="bar-of-fields" onSubmit={submit}>
          <Field label="URL or path" class="grow">
            {(id) => (
              <input
                id={id}
                name="url"
                required
                spellcheck={false}
                autocomplete="off"
                defaultValue={url}
                key={url}
                placeholder="https://media.example.org/film.mp4"
              />
            )}
          </Field>
          <Field label="Range">
            {(id) => (
              <input
                id={id}
                name="range"
                spellcheck={false}
                autocomplete="off"
                defaultValue={range}
                key={range}
                placeholder="0-99"
              />
            )}
          </Field>
          <Field label="Method">
            {(id) => (
              <select id={id} name="method" defaultValue={method} key={method}>
                {methods.map((each) => (
                  <option key={each} selected={each === method}>
                    {each}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <details class="more" open={fields !== '' || client !== ''}>
            <summary>Fields and client</summary>
            <div class="bar-of-fields">
              <Field label="Fields of the request" class="grow" hint="One in a line, such as Accept-Encoding: br">
                {(id, hintId) => (
                  <textarea
                    id={id}
                    aria-describedby={hintId}
                    name="fields"
                    rows={3}
                    spellcheck={false}
                    defaultValue={fields}
                    key={fields}
                  />
                )}
              </Field>
              <Field label="Address of the client" hint="Without it: 127.0.0.1">
                {(id, hintId) => (
                  <input
                    id={id}
                    aria-describedby={hintId}
                    name="client"
                    spellcheck={false}
                    defaultValue={client}
                    key={client}
                  />
                )}
              </Field>
            </div>
          </details>
          <button type="submit" class="button main" aria-busy={isBusy}>
            Explain
          </button>
        </form>
        <Failure text={failure} />
      </Panel>
      <Answer reply={reply} isAsked={url !== ''} />
    </>
  );
}

interface Form {
  readonly url: string;
  readonly range: string;
  readonly method: string;
  readonly fields: string;
  readonly client: string;
}

/** Returns the question, or what is wrong with the form. */
function questionOf({ url, range, method, fields, client }: Form): ExplainQuestion | string {
  const read = parseFieldLines(fields);
  if (read.kind === 'fault') return `A field is “Name: value”, and this line is not: ${read.line}`;
  const all = range.trim() === '' ? read.fields : [...read.fields, ['Range', completeRange(range)] as const];
  return { url: url.trim(), method, fields: all, ...(client.trim() === '' ? {} : { client: client.trim() }) };
}

function Answer({
  reply,
  isAsked,
}: {
  readonly reply: ExplainReply | undefined;
  readonly isAsked: boolean;
}): JSX.Element | null {
  if (!isAsked) {
    return (
      <Panel title="The answer">
        <Empty>
          Enter a URL as clients ask for it, and a range if you like. Rangeway says what it would do and why. It sends
          nothing to the origin, and stores and counts nothing.
        </Empty>
      </Panel>
    );
  }
  if (reply === undefined) return null;
  if (reply.kind === 'answered') {
    return (
      <Panel title="The answer">
        <p class="answered" role="status">
          Rangeway would answer by itself, without the cache: <b>{reply.status}</b> {reply.detail}
        </p>
      </Panel>
    );
  }
  return <Explained explanation={reply.explanation} />;
}

function Explained({ explanation }: { readonly explanation: Explanation }): JSX.Element {
  const { decision, method, uri } = explanation;
  return (
    <>
      <Panel
        title={<span role="status">{`${method}: ${decision.kind}`}</span>}
        aside={<span class="short">{uri}</span>}
      >
        <ExplainPicture explanation={explanation} />
        <ul class="legend">
          <li>
            <Swatch tone="here" /> stored
          </li>
          <li>
            <Swatch tone="in-flight" /> in flight
          </li>
          <li>
            <Swatch tone="origin" /> to fetch from the origin
          </li>
          <li>
            <Swatch tone="none" /> not needed
          </li>
        </ul>
      </Panel>
      <Panel title="In words">
        <dl class="facts words">
          {explanationSections(explanation)
            .filter(({ lines }) => lines.length > 0)
            .map(({ label, lines }) => (
              <div key={label}>
                <dt>{label}</dt>
                <dd>
                  <pre>{replaceTerminalControls(lines.join('\n'))}</pre>
                </dd>
              </div>
            ))}
        </dl>
      </Panel>
    </>
  );
}

function Swatch({ tone }: { readonly tone: string }): JSX.Element {
  return (
    <svg class="swatch" viewBox="0 0 13 13" aria-hidden="true">
      <rect class="bytes-ground" x={0.5} y={0.5} width={12} height={12} rx={2} />
      {tone === 'none' ? null : <rect class={`bytes-part tone-${tone}`} width={13} height={13} rx={2} />}
    </svg>
  );
}
