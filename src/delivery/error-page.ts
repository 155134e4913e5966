/** Pages of the operator's that are sent in place of our own errors. */

/** One page, whole in memory. */
export interface ErrorPage {
  /** In lower case, without parameters. */
  readonly mediaType: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** The page for a status, if there is one. */
export type ErrorPages = (status: number) => ErrorPage | undefined;

/** No pages. */
export const noErrorPages: ErrorPages = () => undefined;

/** Creates the pages of a route from those by status (`502`) and by class (`5xx`); the status itself comes first. */
export function createErrorPages(pages: ReadonlyMap<string, ErrorPage>): ErrorPages {
  return (status) => pages.get(String(status)) ?? pages.get(`${Math.floor(status / 100)}xx`);
}
