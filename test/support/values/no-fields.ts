import type { Fields } from '../../../src/http/fields.ts';
import { CachedFields } from '../../../src/http/message.ts';

/** The fields of a hit that has none besides those that differ from hit to hit. */
export class NoFields extends CachedFields {
  readonly storedText: undefined;

  lines(): Fields {
    return [];
  }
}
