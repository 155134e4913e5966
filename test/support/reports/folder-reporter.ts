/**
 * Vitest's reporter with one line per folder in place of one per file. A file that fails is named at once. At the end come the
 * failures, as Vitest prints them, and every skipped test with its reason.
 */

import { writeFileSync } from 'node:fs';
import { DefaultReporter, type SerializedError, type TestModule, type TestSpecification } from 'vitest/node';
import { type FileReport, formatFolder, formatSkipped, reportOf } from './test-report.ts';

/** The files of a folder that have not ended yet, and what those that have ended told. */
interface Folder {
  waiting: number;
  readonly files: FileReport[];
}

/** The reporter. The environment variable RANGEWAY_TEST_REPORT names the file that gets the report as JSON. */
export default class FolderReporter extends DefaultReporter {
  readonly #folders = new Map<string, Folder>();
  readonly #files: FileReport[] = [];

  override onTestRunStart(specifications: readonly TestSpecification[]): void {
    super.onTestRunStart(specifications);
    for (const { moduleId, project } of specifications) {
      this.#folderOf(this.#folderName(moduleId, project.name)).waiting += 1;
    }
  }

  override printTestModule(testModule: TestModule): void {
    const file = this.#read(testModule);
    this.#files.push(file);
    if (file.failed.length > 0 || file.message !== '') super.printTestModule(testModule);
    const name = this.#folderName(testModule.moduleId, file.project);
    const folder = this.#folderOf(name);
    folder.files.push(file);
    folder.waiting -= 1;
    if (folder.waiting === 0) this.log(formatFolder(name, folder.files));
  }

  override onTestRunEnd(
    testModules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: 'passed' | 'interrupted' | 'failed',
  ): void {
    super.onTestRunEnd(testModules, unhandledErrors, reason);
    for (const line of formatSkipped(this.#files)) this.log(line);
    const { RANGEWAY_TEST_REPORT: path } = process.env;
    if (path === undefined) return;
    const messages = unhandledErrors.map(({ message, stack }) => stack ?? message);
    writeFileSync(path, JSON.stringify(reportOf(this.#files, messages)));
  }

  #folderOf(name: string): Folder {
    const known = this.#folders.get(name);
    if (known !== undefined) return known;
    const folder: Folder = { waiting: 0, files: [] };
    this.#folders.set(name, folder);
    return folder;
  }

  /** Returns the folder below `test`, with the project where a folder runs in several. */
  #folderName(moduleId: string, project: string): string {
    const [, folder = '', inside] = this.relative(moduleId).split('/');
    const name = inside === undefined ? 'test' : folder;
    return project === 'tests' || project === 'apart' || project === 'packages' ? name : `${name} over ${project}`;
  }

  #read(testModule: TestModule): FileReport {
    const tests = [...testModule.children.allTests()];
    const told = tests.map((test) => ({ name: test.fullName, result: test.result() }));
    return {
      file: this.relative(testModule.moduleId),
      project: testModule.project.name,
      durationMs: testModule.diagnostic().duration,
      passed: told.filter(({ result }) => result.state === 'passed').length,
      failed: told.flatMap(({ name, result }) =>
        result.state === 'failed'
          ? [{ name, messages: result.errors.map(({ stack, message }) => stack ?? message) }]
          : [],
      ),
      skipped: told.flatMap(({ name, result }) =>
        result.state === 'skipped' ? [{ name, reason: result.note ?? '' }] : [],
      ),
      message: testModule
        .errors()
        .map(({ stack, message }) => stack ?? message)
        .join('\n'),
    };
  }
}
