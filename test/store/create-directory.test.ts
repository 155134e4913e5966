import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createDirectory } from '../../src/store/disk/bodies/file-system.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';

describe('createDirectory', () => {
  it('creates missing directories for this user alone, and leaves existing ones unchanged', async () => {
    const root = await temporaryDirectory();
    const modes = async (...paths: string[]) =>
      Promise.all(paths.map(async (path) => ((await promises.stat(join(root, path))).mode & 0o777).toString(8)));
    await promises.mkdir(join(root, 'a'));
    await promises.chmod(join(root, 'a'), 0o755);
    for (const _time of ['first', 'second']) {
      await createDirectory(promises, join(root, 'a', 'b', 'c'));
      expect(await modes('a', 'a/b', 'a/b/c')).toEqual(['755', '700', '700']);
    }
  });

  it.each<[obstacle: string, path: string, code: string]>([
    ['a file in its place', 'file', 'EEXIST'],
    ['a file above it', 'file/a/b', 'ENOTDIR'],
    ['a dangling link', 'link', 'ENOENT'],
    ['a dangling link above it', 'link/a', 'ENOENT'],
  ])('gives up at %s', async (_obstacle, path, code) => {
    const root = await temporaryDirectory();
    await promises.writeFile(join(root, 'file'), '');
    await promises.symlink(join(root, 'nowhere'), join(root, 'link'));
    await expect(createDirectory(promises, join(root, path))).rejects.toMatchObject({ code });
    expect((await promises.readdir(root)).sort()).toEqual(['file', 'link']);
  });

  it('gives up where mkdir fails inside an existing directory', async () => {
    const root = await temporaryDirectory();
    const attempted: string[] = [];
    const mkdir = async (path: string): Promise<undefined> => {
      attempted.push(path);
      const code = path === root ? 'EEXIST' : 'ENOENT';
      throw Object.assign(new Error(`${code}: as /proc answers`), { code });
    };
    const calls = { ...promises, mkdir: mkdir as typeof promises.mkdir };
    await expect(createDirectory(calls, join(root, 'a', 'b'))).rejects.toMatchObject({ code: 'ENOENT' });
    expect(attempted).toEqual([join(root, 'a', 'b'), join(root, 'a'), root, join(root, 'a')]);
  });
});
