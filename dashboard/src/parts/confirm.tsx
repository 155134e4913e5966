/** A dialog that asks for a confirmation. The element `dialog` keeps the focus inside, closes on Escape and gives the focus back. */

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

/** What a dialog asks. */
export interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** The label of the button that confirms: a verb. */
  readonly action: string;
  /** Whether what happens cannot be undone. */
  readonly isGrave?: boolean;
}

/** A question, and what gets its answer. */
export interface OpenQuestion extends Question {
  answer(isConfirmed: boolean): void;
}

/** Shows a question until it is answered. The focus begins on the button that changes nothing. */
export function ConfirmDialog({ question }: { readonly question: OpenQuestion }): JSX.Element {
  const { title, body, action, isGrave = false, answer } = question;
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  // The dialog is closed before it is removed: only then the browser gives the focus back.
  const finish = (isConfirmed: boolean): void => {
    dialog.current?.close();
    answer(isConfirmed);
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={id} onCancel={() => finish(false)}>
      <h2 id={id}>{title}</h2>
      <div class="dialog-body">{body}</div>
      <div class="dialog-actions">
        <button type="button" class="button" onClick={() => finish(false)}>
          Cancel
        </button>
        <button type="button" class={`button ${isGrave ? 'grave' : 'main'}`} onClick={() => finish(true)}>
          {action}
        </button>
      </div>
    </dialog>
  );
}
