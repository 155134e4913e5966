/** The licences of everything that is in the single executable. */

import type { BundledPackage } from './bundle.ts';

/** The texts of the licences. */
export interface LicenceTexts {
  /** Of Rangeway itself. */
  readonly own: string;
  readonly packages: readonly BundledPackage[];
  /** Of the packages in the dashboard; undefined where it is not built. */
  readonly dashboard: string | undefined;
  readonly nodeVersion: string;
  /** Of Node, with those of everything that is built into it. */
  readonly node: string;
}

const rule = '-'.repeat(80);

/** Formats all licences as one text, with a heading for each. */
export function formatLicences({ own, packages, dashboard, nodeVersion, node }: LicenceTexts): string {
  const parts = [
    ['Rangeway', own],
    ...packages.map(({ name, version, licence, licenceText }) => [`${name} ${version} (${licence})`, licenceText]),
    ...(dashboard === undefined ? [] : [['Packages in the dashboard', dashboard] as const]),
    [`Node.js ${nodeVersion}, and what is built into it`, node],
  ] as const;
  const list = parts.map(([heading]) => `  ${heading}\n`).join('');
  const texts = parts.map(([heading, text]) => `\n${rule}\n${heading}\n${rule}\n\n${text.trim()}\n`);
  return `The executable "rangeway" contains the following software. The licences follow in this order.\n\n${list}${texts.join('')}`;
}
