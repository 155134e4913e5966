/** What asks an origin whether a stored response is still its current one (RFC 9111 §4.3.1). */

import { type Field, type Fields, fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { parseHttpDate } from './http-date.ts';
import { parseEntityTag } from './validator.ts';

/**
 * The fields to add to a validation: If-None-Match with the origin's entity tag, If-Modified-Since with its
 * Last-Modified, each as the origin wrote it. Never a tag that Rangeway made. Empty when the origin gave no valid
 * validator: then there is nothing to ask with. The request must carry no other precondition and no Range.
 */
export function conditionalFields(stored: Pick<StoredResponse, 'fields' | 'responseAt'>): Fields {
  const fields: Field[] = [];
  const entityTag = fieldValue(stored.fields, 'etag');
  if (entityTag !== undefined && parseEntityTag(entityTag) !== undefined) fields.push(['if-none-match', entityTag]);
  const lastModified = fieldValue(stored.fields, 'last-modified');
  if (lastModified !== undefined && parseHttpDate(lastModified, stored.responseAt) !== undefined) {
    fields.push(['if-modified-since', lastModified]);
  }
  return fields;
}
