/** What a configuration of nginx on a page needs in a test: folders in the work directory, and as root the right to use them. */

import { findProgram } from '../processes/programs.ts';

const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path DIR/${name};`);

/** Texts of a page with `nginx.conf`, and what takes their place. */
export const nginxTexts: Readonly<Record<string, string>> = {
  // Where an ordinary user's PATH lacks it.
  'nginx -p': `${findProgram('nginx')} -p`,
  'access_log off;': `access_log off; ${folders.join(' ')}`,
  // Without it, workers of root belong to a user that cannot read the work directory. Other users get a warning.
  'worker_processes auto;': 'user root; worker_processes 2;',
};
