import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MiB } from '../../../units/bytes.js';
import { fileStates } from './file-states.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-states-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('fileStates', () => {
  it('tells edits apart that follow one another faster than the clock of the files ticks', async () => {
    const path = join(folder, 'config.json');
    const seen = new Set<string>();
    for (let layers = 100; layers < 300; layers++) {
      writeFileSync(path, `{"n_layer": ${layers}}`);
      seen.add((await fileStates([path])).join());
    }
    expect(seen.size).toBe(200);
  });

  it('takes large files, folders and what is not there as they are, each by its name', async () => {
    const large = join(folder, 'model.safetensors');
    writeFileSync(large, Buffer.alloc(MiB + 1));
    const paths = [large, folder, join(folder, 'none'), join(folder, 'nor this')];
    const before = await fileStates(paths);
    expect(await fileStates(paths)).toEqual(before);
    expect(new Set(before).size).toBe(paths.length);
    writeFileSync(large, Buffer.alloc(MiB + 2));
    expect((await fileStates(paths))[0]).not.toBe(before[0]);
  });
});
