import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDeviceUse, writeDeviceUse } from './use-file.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-use-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

describe('what a server leaves for its supervisors', () => {
  it('is what the processes of each device hold, for some seconds', () => {
    const processes = [
      { pid: 7, usedBytes: 100 },
      { pid: 8, usedBytes: 'unknown' as const },
    ];
    writeDeviceUse(home, new Map([['gpu:0', processes]]), 1000);
    expect(readDeviceUse(home, 'gpu:0', 2000)).toEqual(processes);
    expect(readDeviceUse(home, 'gpu:1', 2000)).toBeUndefined();
    expect(readDeviceUse(home, 'gpu:0', 5000)).toBeUndefined();
    expect(readDeviceUse(home, 'gpu:0', 500)).toBeUndefined();
  });

  it('is nothing where the processes were not seen', () => {
    writeDeviceUse(home, new Map([['gpu:0', 'unknown']]), 1000);
    expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
  });

  it('is nothing where the file is missing, damaged, or of a later version', () => {
    expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
    for (const text of ['{', 'null', '{"schema":2,"epochMs":1000,"devices":{"gpu:0":[[1,2]]}}']) {
      writeFileSync(join(home, 'device-use.json'), text);
      expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
    }
  });
});
