/** Skips the rest of the tests of a file once one has failed: the fault is found then, and others may wait in vain for long. */

import { beforeEach } from 'vitest';

let isFound = false;
beforeEach(({ skip, onTestFailed }) => {
  if (isFound) skip('the fault is found');
  onTestFailed(() => {
    isFound = true;
  });
});
