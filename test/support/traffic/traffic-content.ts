/** What the file of random traffic holds, version by version. */

import { patternByte, patternBytes } from '../values/pattern-body.ts';

/** What decides on the bytes of all versions. */
export interface ContentRules {
  /** The length of every version. */
  readonly size: number;
  readonly blockSizeBytes: number;
  /** Whether a new version has other bytes throughout, or in some blocks only. */
  readonly changes: 'all' | 'some';
}

const known = new WeakMap<ContentRules, Map<number, Uint8Array<ArrayBuffer>>>();

/** The bytes of a version, from 1 on; they must not be changed. */
export function contentOf(rules: ContentRules, version: number): Uint8Array<ArrayBuffer> {
  const versions = known.get(rules) ?? new Map<number, Uint8Array<ArrayBuffer>>();
  known.set(rules, versions);
  const content = versions.get(version) ?? createContent(rules, version);
  versions.set(version, content);
  return content;
}

function createContent(rules: ContentRules, version: number): Uint8Array<ArrayBuffer> {
  const { size, blockSizeBytes, changes } = rules;
  if (changes === 'all' || version <= 1) return patternBytes(0, size, version);
  const content = contentOf(rules, version - 1).slice();
  for (let start = 0; start < size; start += blockSizeBytes) {
    if (patternByte(start, 1000 + version) % 3 > 0) continue;
    content.set(patternBytes(start, Math.min(size, start + blockSizeBytes), version), start);
  }
  return content;
}
