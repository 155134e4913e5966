/** What an error of our own is about, before it has a form. */

/** Problem details (RFC 9457 §3.1). The type is `about:blank`, which is left out (§4.2.1). */
export interface Problem {
  readonly status: number;
  /** The phrase of the status. */
  readonly title: string;
  /** A sentence for people, which says nothing that only operators should know. */
  readonly detail: string;
}
