/** The file `copyright` of the Debian package, which has the licences of everything in the executable. */

import { formatLicences, type LicenceTexts } from '../binary/licences.ts';

/** Formats the file. For a package under the Apache License it refers to the text that every Debian system has, as Debian demands. */
export function formatCopyright(texts: LicenceTexts): string {
  const packages = texts.packages.map((each) =>
    each.licence === 'Apache-2.0' ? { ...each, licenceText: apacheReference } : each,
  );
  return formatLicences({ ...texts, packages });
}

const apacheReference = `Licensed under the Apache License, Version 2.0. On Debian systems its text is in
/usr/share/common-licenses/Apache-2.0.`;
