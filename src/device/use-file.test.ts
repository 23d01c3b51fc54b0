import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeviceUse, DeviceUseFile, readDeviceUse } from './use-file.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-use-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

async function write(use: DeviceUse, epochMs: number): Promise<void> {
  const file = new DeviceUseFile(home);
  file.write(new Map([['gpu:0', use]]), epochMs);
  await file.close();
}

describe('what a server leaves for its supervisors', () => {
  it('is what the processes of each device hold, for some seconds', async () => {
    const processes = [
      { pid: 7, usedBytes: 100 },
      { pid: 8, usedBytes: 'unknown' as const },
    ];
    await write(processes, 1000);
    expect(readDeviceUse(home, 'gpu:0', 2000)).toEqual(processes);
    expect(readDeviceUse(home, 'gpu:1', 2000)).toBeUndefined();
    expect(readDeviceUse(home, 'gpu:0', 5000)).toBeUndefined();
    expect(readDeviceUse(home, 'gpu:0', 500)).toBeUndefined();
  });

  it('is nothing where the processes were not seen', async () => {
    await write('unknown', 1000);
    expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
  });

  it('is the last of several readings that came while one was being written', async () => {
    const file = new DeviceUseFile(home);
    for (let pid = 1; pid <= 20; pid++) {
      file.write(new Map([['gpu:0', [{ pid, usedBytes: 5 }]]]), 1000 + pid);
    }
    await file.close();
    expect(readDeviceUse(home, 'gpu:0', 1020)).toEqual([{ pid: 20, usedBytes: 5 }]);
    expect(readDeviceUse(home, 'gpu:0', 1019)).toBeUndefined();
  });

  it('is left out where it cannot be written', async () => {
    const file = new DeviceUseFile(join(home, 'missing'));
    file.write(new Map([['gpu:0', []]]), 1000);
    await file.close();
    expect(readDeviceUse(join(home, 'missing'), 'gpu:0', 1000)).toBeUndefined();
  });

  it('is nothing where the file is missing, damaged, or of a later version', () => {
    expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
    for (const text of ['{', 'null', '{"schema":2,"epochMs":1000,"devices":{"gpu:0":[[1,2]]}}']) {
      writeFileSync(join(home, 'device-use.json'), text);
      expect(readDeviceUse(home, 'gpu:0', 1000)).toBeUndefined();
    }
  });
});
