import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeDropped } from '../../../run/log/log-limit.js';
import { JobFiles } from './job-files.js';

let home: string;
let files: JobFiles;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-files-'));
  files = new JobFiles(home);
  mkdirSync(dirname(files.log('1')), { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true }));

async function read(from: number, most = 1000): Promise<[string, number, number]> {
  const { bytes, size, next } = await files.readLog('1', from, most);
  return [Buffer.from(bytes).toString(), next, size];
}

const note =
  'plimsoll: 12 bytes of this log were dropped here (8 to 20): its beginning and what is newest are kept.\n';

describe('the log of a job', () => {
  it('is read from any offset, and none is there where nothing was printed', async () => {
    expect(await read(0)).toEqual(['', 0, 0]);
    appendFileSync(files.log('1'), 'one\ntwo\n');
    expect(await read(0)).toEqual(['one\ntwo\n', 8, 8]);
    expect(await read(4, 2)).toEqual(['tw', 6, 8]);
    expect(await read(4, 0)).toEqual(['', 4, 8]);
    expect(await read(8)).toEqual(['', 8, 8]);
    expect(await read(100)).toEqual(['', 100, 8]);
  });

  it('has a line where a part is missing, and goes on behind it', async () => {
    appendFileSync(files.log('1'), `one\ntwo\n${'\0'.repeat(12)}last\nend\n`);
    await writeDropped(files.log('1'), { from: 8, to: 20 });
    expect(await read(0)).toEqual(['one\ntwo\n', 8, 29]);
    expect(await read(8)).toEqual([`${note}last\nend\n`, 29, 29]);
    // A reader that had some of it before it went misses the rest, from the middle of a line.
    const rest = note.replace('12 bytes', '9 bytes').replace('8 to 20', '11 to 20');
    expect(await read(11)).toEqual([`\n${rest}last\nend\n`, 29, 29]);
    expect(await read(20)).toEqual(['last\nend\n', 29, 29]);
    // The line is counted in what is wanted; it comes whole, and nothing is passed over.
    expect(await read(8, note.length + 5)).toEqual([`${note}last\n`, 25, 29]);
    expect(await read(8, 1)).toEqual([note, 20, 29]);
    expect(await read(8, 0)).toEqual(['', 8, 29]);
  });

  it('begins a line of its own for that after one that was cut', async () => {
    appendFileSync(files.log('1'), `one\ntwo ${'\0'.repeat(12)}last\n`);
    await writeDropped(files.log('1'), { from: 8, to: 20 });
    expect(await read(8)).toEqual([`\n${note}last\n`, 25, 25]);
  });
});
