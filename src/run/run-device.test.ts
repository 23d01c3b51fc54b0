import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { discoverDevices } from '../device/discover.js';
import { DeviceUseFile } from '../device/use-file.js';
import { type HeldOnDevice, openRunDevice } from './run-device.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-run-device-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** No process of the simulated GPU has this number. */
const pid = 3_999_999;

async function readWith(sharedBy: string | undefined): Promise<HeldOnDevice | undefined> {
  const discovery = await discoverDevices({ simulate: { scenario: 'leak' } });
  const device = await openRunDevice('gpu:0', discovery, { sharedBy });
  try {
    return await device.readDevice([pid]);
  } finally {
    device.close();
  }
}

const uses = [
  { pid, usedBytes: 77 },
  { pid: pid - 1, usedBytes: 5 },
  { pid: pid - 2, usedBytes: 'unknown' as const },
];

/** Just now, however long it takes until it is read. */
async function writeUse(): Promise<void> {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const file = new DeviceUseFile(home);
  file.write(new Map([['gpu:0', uses]]), Date.now());
  await file.close();
}

describe('the device of a run', () => {
  it.each([
    ['gpu:0', true],
    ['host', false],
  ])('%s is simulated: %s', async (wanted, isSimulated) => {
    const discovery = await discoverDevices({ simulate: { scenario: 'leak' } });
    const device = await openRunDevice(wanted, discovery);
    expect(device).toMatchObject({ id: wanted, isSimulated });
    device.close();
  });
});

describe('what a program holds of its device', () => {
  it('is taken from the server that read the device already', async () => {
    await writeUse();
    expect(await readWith(home)).toEqual({ processes: [{ pid, bytes: 77 }], othersBytes: 5 });
  });

  it('is asked of the driver where no server looks', async () => {
    expect(await readWith(home)).toBeUndefined();
    await writeUse();
    expect(await readWith(undefined)).toBeUndefined();
  });
});
