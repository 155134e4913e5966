/** Chromium for the recipes. */

import { chromium, type Page } from 'playwright-core';
import { findProgram } from '../support/processes/programs.ts';

/** Runs a test with a page of the installed browser, which is closed afterwards. */
export async function withPage(test: (page: Page) => Promise<void>): Promise<void> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
  const browser = await chromium.launch({ executablePath: findProgram('chromium') ?? '', args });
  try {
    await test(await browser.newPage());
  } finally {
    await browser.close();
  }
}
