/** What responses are given on their way to the client, whoever made them. */

import type { ProxyRequest, ProxyResponse } from '../http/message.ts';

/** The rules of one route. */
export interface Presentation {
  /** The answer to a preflight request (CORS), where this is one that is answered here. */
  answerPreflight(request: ProxyRequest): ProxyResponse | undefined;
  present(request: ProxyRequest, response: ProxyResponse): ProxyResponse;
}

/** Gives responses nothing. */
export const plainPresentation: Presentation = {
  answerPreflight: () => undefined,
  present: (_request, response) => response,
};
