/** The small parts that views are put together from. */

import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';
import { splitUri } from '../model/format.ts';

/** A section with a heading. `aside` stands at the end of the heading's line. */
export function Panel(props: {
  readonly title: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  const id = useId();
  return (
    <section class={`panel ${props.class ?? ''}`} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{props.title}</h2>
        {props.aside === undefined ? null : <div class="panel-aside">{props.aside}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** What is shown where there is nothing yet: what would be here, and what brings it. */
export function Empty({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** What the figures of a view cover where machines share the store. */
export function OfThisMachine(): JSX.Element {
  return (
    <p class="of-this-machine">
      These figures are of this machine only. The store is shared: its entries are those of all machines.
    </p>
  );
}

/** A word with a colour. The word alone says everything. */
export function Pill({
  tone,
  children,
}: {
  readonly tone: PillTone;
  readonly children: ComponentChildren;
}): JSX.Element {
  return <span class={`pill ${tone}`}>{children}</span>;
}

/** The colours of a pill. */
export type PillTone = 'good' | 'warn' | 'bad' | 'here' | 'origin' | 'quiet';

/** A URI: its last part is set off. `short`: in one line, which is shortened. The whole is there for screen readers. */
export function Uri({ uri, short = false }: { readonly uri: string; readonly short?: boolean }): JSX.Element {
  const { site, folder, file } = splitUri(uri);
  const parts = (
    <>
      {site === '' ? null : <span class="uri-site">{site}</span>}
      {folder === '' ? null : <span class="uri-folder">{folder}</span>}
      {file === '' ? null : <span class="uri-file">{file}</span>}
    </>
  );
  if (!short) return <span class="uri">{parts}</span>;
  // The parts of one line are boxes, between which a screen reader would pause.
  return (
    <>
      <span class="uri short" title={uri} aria-hidden="true">
        {parts}
      </span>
      <span class="unseen">{uri}</span>
    </>
  );
}

/** A share as a bar. `label` names it for screen readers. */
export function Bar(props: { readonly share: number; readonly label: string; readonly tone?: string }): JSX.Element {
  return (
    <progress class={`bar ${props.tone ?? ''}`} max={1} value={Math.min(1, props.share)} aria-label={props.label} />
  );
}

/** A label with its control below it. */
export function Field(props: {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly class?: string;
  /** Gets the id that the control must have, and that of the hint. */
  readonly children: (id: string, hintId: string | undefined) => ComponentChildren;
}): JSX.Element {
  const id = useId();
  const hintId = props.hint === undefined ? undefined : `${id}-hint`;
  return (
    <div class={`field ${props.class ?? ''}`}>
      <label for={id}>{props.label}</label>
      {props.children(id, hintId)}
      {hintId === undefined ? null : (
        <small id={hintId} class="hint">
          {props.hint}
        </small>
      )}
    </div>
  );
}

/** A set of choices, of which one holds. They are radio buttons, so the arrow keys go through them. */
export function Choices<T extends string>(props: {
  readonly label: string;
  readonly choices: readonly (readonly [value: T, label: string])[];
  readonly value: T;
  readonly isSmall?: boolean;
  onChoose(value: T): void;
}): JSX.Element {
  const name = useId();
  return (
    <fieldset class={`choices ${props.isSmall === true ? 'small' : ''}`}>
      <legend class={props.isSmall === true ? 'unseen' : ''}>{props.label}</legend>
      <div class="choices-row">
        {props.choices.map(([value, label]) => (
          <label key={value} class="choice">
            <input type="radio" name={name} checked={value === props.value} onChange={() => props.onChoose(value)} />
            <span>{label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** Why something could not be done. Screen readers read it out when it appears. */
export function Failure({ text }: { readonly text: string | undefined }): JSX.Element | null {
  return text === undefined ? null : (
    <p class="failure" role="alert">
      {text}
    </p>
  );
}
