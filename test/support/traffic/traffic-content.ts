/** The bytes of each version of the file of random traffic. */

import { patternByte, patternBytes } from '../values/pattern-body.ts';

/** Rules that determine the bytes of all versions. */
export interface ContentRules {
  /** The length of every version, in bytes. */
  readonly size: number;
  readonly blockSizeBytes: number;
  /** Whether a new version changes all bytes, or some blocks only. */
  readonly changes: 'all' | 'some';
}

const known = new WeakMap<ContentRules, Map<number, Uint8Array<ArrayBuffer>>>();

/** Returns the bytes of a version, from 1. They are shared and must not be changed. */
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
