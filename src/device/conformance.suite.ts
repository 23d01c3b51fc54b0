import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Known } from '../units/known.js';
import {
  type DeviceInfo,
  DeviceLost,
  type DeviceProvider,
  type MemoryReading,
  type ProcessReading,
} from './device.js';

/** One provider on a machine with at least one device of its kind. */
export interface ConformanceCase {
  readonly provider: DeviceProvider;
  /** Takes the first device away; left out where it cannot go (the host, a simulation). */
  readonly lose?: () => void | Promise<void>;
  readonly cleanUp?: () => void | Promise<void>;
}

/** The rules for every provider. Each provider runs them in its own test. */
export function describeConformance(name: string, make: () => Promise<ConformanceCase>): void {
  describe(`${name} keeps the contract of a device provider`, () => {
    let subject: ConformanceCase;
    beforeEach(async () => {
      subject = await make();
    });
    afterEach(async () => {
      subject.provider.close();
      await subject.cleanUp?.();
    });

    it('lists at least one device, each with an id of its own', async () => {
      const { devices } = await subject.provider.list();
      expect(devices.length).toBeGreaterThan(0);
      expect(new Set(devices.map(({ info }) => info.id)).size).toBe(devices.length);
    });

    it('describes each device, and says where it comes from', async () => {
      const { devices } = await subject.provider.list();
      expect(devices.flatMap(({ info }) => faultsOfInfo(info, subject.provider))).toEqual([]);
    });

    it('reads memory that adds up, several times', async () => {
      const { devices } = await subject.provider.list();
      for (const device of [...devices, ...devices]) {
        expect(faultsOfReading(await device.read(), device.info)).toEqual([]);
      }
    });

    it('gives readings that do not change afterwards', async () => {
      const [device] = (await subject.provider.list()).devices;
      const first = await device?.read();
      const copy = structuredClone(first);
      await device?.read();
      expect(first).toEqual(copy);
    });

    it('lists processes by size, each once', async () => {
      for (const device of (await subject.provider.list()).devices) {
        expect(faultsOfProcesses(await device.processes())).toEqual([]);
      }
    });

    it('lists the same objects again while nothing changed', async () => {
      const first = await subject.provider.list();
      const second = await subject.provider.list();
      expect(second.devices.length).toBe(first.devices.length);
      expect(second.devices.every((device, at) => device === first.devices[at])).toBe(true);
      expect(second.notes).toEqual(first.notes);
    });

    it('has a fingerprint that stays while nothing changed', async () => {
      const before = await subject.provider.fingerprint();
      const [device] = (await subject.provider.list()).devices;
      await device?.read();
      await device?.processes();
      expect(await subject.provider.fingerprint()).toBe(before);
    });

    it('writes notes as sentences', async () => {
      const { notes } = await subject.provider.list();
      expect(notes.filter((note) => !/^[A-Za-z].*\.$/.test(note))).toEqual([]);
    });

    it('can be closed twice, and before it was used', async () => {
      subject.provider.close();
      expect((await subject.provider.list()).devices.length).toBeGreaterThan(0);
      subject.provider.close();
      expect(() => subject.provider.close()).not.toThrow();
    });

    it('reports a device that went away and goes on without it, if one can go', async () => {
      const before = await subject.provider.fingerprint();
      const { devices } = await subject.provider.list();
      const [first, ...others] = devices;
      await subject.lose?.();
      const error = await errorOf(() => first?.read());
      const after = (await subject.provider.list()).devices;
      const canGo = subject.lose !== undefined;
      const left = canGo ? others : devices;

      expect(error instanceof DeviceLost).toBe(canGo);
      expect(error instanceof DeviceLost ? error.deviceId : first?.info.id).toBe(first?.info.id);
      expect(after.map(({ info }) => info.id)).toEqual(left.map(({ info }) => info.id));
      expect(after.every((device, at) => device === left[at])).toBe(true);
      for (const device of after) {
        expect(faultsOfReading(await device.read(), device.info)).toEqual([]);
      }
      const settled = await subject.provider.fingerprint();
      expect(settled !== before).toBe(canGo);
      await subject.provider.list();
      expect(await subject.provider.fingerprint()).toBe(settled);
    });
  });
}

function faultsOfInfo(info: DeviceInfo, provider: DeviceProvider): readonly string[] {
  const pattern = info.kind === 'host' ? /^host$/ : /^gpu:\d+(?:\/mig:\d+)?$/;
  const isSimulated = info.source === 'simulated';
  return faults(info.id, {
    'an odd id': !pattern.test(info.id),
    'a bad name': info.name === '' || info.name.trim() !== info.name,
    'an empty uuid': info.uuid === '',
    'an empty driver': info.driver === '',
    'another source than its provider': info.source !== provider.source,
    'a wrong provenance': (info.provenance === 'simulated') !== isSimulated,
    'a name that hides the simulation': isSimulated && !info.name.includes('simulated'),
  });
}

function faultsOfReading(reading: MemoryReading, info: DeviceInfo): readonly string[] {
  const { totalBytes, usedBytes, freeBytes, utilizationPercent, allocator, host } = reading;
  const isKnown = totalBytes !== 'unknown' && usedBytes !== 'unknown' && freeBytes !== 'unknown';
  return faults(info.id, {
    'a bad total': !isBytes(totalBytes),
    'a bad used': !isBytes(usedBytes),
    'a bad free': !isBytes(freeBytes),
    'more used and free than there is': isKnown && usedBytes + freeBytes > totalBytes,
    'a bad utilization': !isPercent(utilizationPercent),
    'a host part where it is none, or none where it is':
      (host !== undefined) !== (info.kind === 'host'),
    'bad swap':
      host !== undefined && !(isBytes(host.swapTotalBytes) && isBytes(host.swapUsedBytes)),
    'bad pressure':
      host !== undefined &&
      !(isPercent(host.pressureSomePercent) && isPercent(host.pressureFullPercent)),
    'a limit that does not fit its kind':
      host !== undefined && (host.limitBytes === 'none') !== (host.limitedBy === 'ram'),
    'a bad allocator':
      allocator !== undefined &&
      !(
        isBytes(allocator.allocatedBytes) &&
        isBytes(allocator.limitBytes) &&
        allocator.allocatedBytes <= allocator.reservedBytes
      ),
  });
}

function faultsOfProcesses(processes: Known<readonly ProcessReading[]>): readonly string[] {
  if (processes === 'unknown') return [];
  const sizes = processes.map(({ usedBytes }) => (usedBytes === 'unknown' ? -1 : usedBytes));
  const sorted = sizes.toSorted((a, b) => b - a);
  return faults('processes', {
    'one twice': new Set(processes.map(({ pid }) => pid)).size !== processes.length,
    'a wrong order': sizes.some((size, at) => size !== sorted[at]),
    'a bad id': !processes.every(({ pid }) => Number.isSafeInteger(pid) && pid > 0),
    'an empty name': processes.some(({ name }) => name === ''),
    'a bad size': !processes.every(({ usedBytes }) => isBytes(usedBytes)),
  });
}

/** The names of the checks that found something. */
function faults(subject: string, checks: Readonly<Record<string, boolean>>): readonly string[] {
  return Object.entries(checks)
    .filter(([, isFault]) => isFault)
    .map(([what]) => `${subject}: ${what}`);
}

function isBytes(bytes: Known<number>): boolean {
  return bytes === 'unknown' || (Number.isSafeInteger(bytes) && bytes >= 0);
}

function isPercent(percent: Known<number>): boolean {
  return percent === 'unknown' || (percent >= 0 && percent <= 100);
}

async function errorOf(act: () => unknown): Promise<unknown> {
  try {
    await act();
  } catch (error) {
    return error;
  }
  return undefined;
}
