/** Which stored responses get a strong entity tag of our own. */

import { fieldValue, hasField } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { parseEntityTag, strongValidator } from '../semantics/validator.ts';

/** Where the origin sends no validator at all, or also where it sends none but weak ones. */
export type OwnTagPolicy = 'whenNone' | 'whenWeak';

/** Whether a response is to be named by us: a 200 that the origin has not named well enough for ranges to be combined. */
export function mayHaveOwnTag(response: StoredResponse, policy: OwnTagPolicy, now: number): boolean {
  if (response.status !== 200) return false;
  if (policy === 'whenWeak') return strongValidator(response, now) === undefined;
  return !hasField(response.fields, 'etag') && !hasField(response.fields, 'last-modified');
}

/** Whether the origin has named a response so well that a tag of ours would only be in the way. */
export function hasStrongTag({ fields }: StoredResponse): boolean {
  return parseEntityTag(fieldValue(fields, 'etag') ?? '')?.kind === 'strong';
}
