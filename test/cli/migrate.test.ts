import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useCommand } from './command.js';

const command = useCommand();
const before = 'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nx = 1\n';
const after = 'import os\nx = 1\n';

function project(): { readonly folder: string; readonly file: string } {
  const folder = join(command.folder(), 'project');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'train.py');
  writeFileSync(file, before, { mode: 0o755 });
  writeFileSync(join(folder, 'broken.py'), 'from torch.cuda.amp import (');
  return { folder, file };
}

describe('plimsoll migrate', () => {
  it('proposes a diff, changes nothing, and lists what it does not understand', async () => {
    const { folder, file } = project();
    const { stdout, stderr, exitCode } = await command.run(['migrate', folder]);
    expect(stdout).toContain('-os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n');
    expect(stdout).toMatch(/^--- .*train\.py\n\+\+\+ .*train\.py\n@@ -1,3 \+1,2 @@\n/);
    expect(stderr).toContain('broken.py: line 1');
    expect(exitCode).toBe(1);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('writes with --apply, keeps the mode, and puts all back with --undo', async () => {
    const { folder, file } = project();
    const applied = await command.run(['migrate', folder, '--apply', '--json']);
    expect(applied.exitCode).toBe(0);
    expect(JSON.parse(applied.stdout)).toMatchObject({ applied: true, files: 2 });
    expect(readFileSync(file, 'utf8')).toBe(after);
    expect(statSync(file).mode & 0o777).toBe(0o755);
    const undone = await command.run(['migrate', '--undo', '--json']);
    expect(JSON.parse(undone.stdout)).toMatchObject({ restored: [file], changedSince: [] });
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect((await command.run(['migrate', '--undo'])).stderr).toContain('nothing-to-undo');
  });

  it('leaves a file alone that was changed after --apply', async () => {
    const { folder, file } = project();
    await command.run(['migrate', folder, '--apply']);
    writeFileSync(file, 'mine = 1\n');
    const undone = await command.run(['migrate', '--undo']);
    expect(undone.stdout).toContain('Left alone, as it changed since');
    expect(undone.exitCode).toBe(1);
    expect(readFileSync(file, 'utf8')).toBe('mine = 1\n');
  });

  it.each([
    [['migrate'], 'bad-usage: No file and no folder was given.', 2],
    [['migrate', 'nowhere'], 'no-file: There is no file or folder "nowhere".', 2],
    [['migrate', '.', '--undo'], 'bad-usage: --undo stands alone.', 2],
    [['migrate', '.', '--python', './none'], 'no-python: ./none did not read the code', 3],
  ])('refuses %j', async (argv, message, code) => {
    const { stdout, stderr, exitCode } = await command.run(argv);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: code });
  });
});
