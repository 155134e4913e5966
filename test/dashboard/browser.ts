/** A page of the installed Chromium that watches for errors and for violations of the Content-Security-Policy. */

import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { findProgram } from '../support/processes/programs.ts';

const switches = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** How a page is shown. */
export interface PageLook {
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
}

/** Starts the browser. The caller closes it. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: findProgram('chromium') ?? '', args: switches });
}

/** Keeps violations of the policy where the test can read them, in every document of the page. */
const noteViolations = `
  globalThis.violations = [];
  addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sourceFile, lineNumber }) =>
    violations.push(violatedDirective + ' ' + blockedURI + ' ' + sourceFile + ':' + lineNumber));
`;

/** Runs a test with a page of its own. Every error of the page, and every violation of the policy, fails the test. */
export async function withPage(
  browser: Browser,
  { width = 1280, scheme = 'light' }: PageLook,
  test: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  try {
    const page = await context.newPage();
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(error.message));
    await page.addInitScript(noteViolations);
    await test(page);
    expect(faults).toEqual([]);
    expect(await page.evaluate('globalThis.violations')).toEqual([]);
  } finally {
    await context.close();
  }
}

/** Logs in by a token, and waits for the first reading. */
export async function logIn(page: Page, url: string, token: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel('Token of the admin listener').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('live', { exact: true }).waitFor();
}

interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Runs axe with all its rules. Returns a line for each finding. */
export async function findFaults(page: Page): Promise<readonly string[]> {
  // The policy forbids a script element with this source, but not its evaluation by the debugger.
  await page.evaluate(axe.source);
  const { violations, passes } = (await page.evaluate('axe.run(document)')) as {
    readonly violations: readonly Finding[];
    readonly passes: readonly Finding[];
  };
  expect(passes.length, 'rules that axe found obeyed').toBeGreaterThan(10);
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n  ${html.slice(0, 200)}\n  ${failureSummary}`),
  );
}

/** Returns by how many pixels the page is wider than its window. */
export async function overflowPx(page: Page): Promise<number> {
  return (await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number;
}
