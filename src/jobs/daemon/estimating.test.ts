import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Discovery } from '../../device/discover.js';
import type { Estimate } from '../../estimate/types.js';
import { createVirtualClock } from '../../time/virtual-clock.js';
import { GiB } from '../../units/bytes.js';
import { fakeDevice, memory } from '../../watch/fake-device-for-tests.js';
import { FakeMachine } from './fake-engine-for-tests.js';
import { openDaemon } from './open-daemon.js';
import type { DaemonOptions } from './options.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-estimating-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const found: Estimate = {
  method: 'trace',
  peak: {
    allocatedBytes: 8 * GiB,
    reservedBytes: 8 * GiB,
    deviceBytes: 9 * GiB,
    leastCapacityBytes: 9 * GiB,
  },
  interval: { lowBytes: 8 * GiB, highBytes: 9 * GiB, confidence: 0.95 },
  breakdown: [],
  notes: [],
};

/** A daemon on one GPU, whose estimates take ten seconds each. */
async function estimating(more: Partial<DaemonOptions> = {}) {
  const clock = createVirtualClock();
  const machine = new FakeMachine(clock, () => ({ seconds: 100, bytes: GiB }));
  const read = () => memory(machine.heldBytes('gpu:0'), 100 * GiB);
  const processes = () => Promise.resolve(machine.processes('gpu:0'));
  const discovery: Discovery = {
    devices: [fakeDevice({ read, processes })],
    notes: [],
    rescan: () => Promise.resolve({ appeared: [], vanished: [] }),
    close() {},
  };
  const seen = { working: 0, most: 0 };
  const slowly = async () => {
    seen.working += 1;
    seen.most = Math.max(seen.most, seen.working);
    await clock.waitUntil(clock.seconds() + 10);
    seen.working -= 1;
    return found;
  };
  const daemon = await openDaemon({
    home,
    discovery,
    engine: machine.engine(),
    environment: { PATH: process.env['PATH'] },
    folder: home,
    clock,
    estimate: async (_request, _signal, withLimit) => (withLimit ? await withLimit(slowly) : found),
    ...more,
  });
  return { clock, daemon, seen };
}

const modelled = (batch: number) => ({
  command: ['true', String(batch)],
  workload: { model: '/m/config.json', batch },
});

describe('jobs with a workload', () => {
  it.each([
    [undefined, 2, 30],
    [4, 4, 20],
  ])('are estimated so many at once: %s', async (estimatesAtOnce, most, seconds) => {
    const { clock, daemon, seen } = await estimating({ estimatesAtOnce });
    const all = Promise.all(Array.from({ length: 6 }, (_, n) => daemon.submit(modelled(n + 1))));
    await clock.advance(seconds - 1);
    expect(daemon.jobs({}).length).toBeLessThan(6);
    await clock.advance(1);
    expect((await all).map(({ need }) => need.bytes)).toEqual(Array(6).fill(10 * GiB));
    expect(seen.most).toBe(most);
    await daemon.close();
  });

  it('are many at a time without a word of warning', async () => {
    const warnings: string[] = [];
    const warned = ({ message }: Error) => warnings.push(message);
    process.on('warning', warned);
    const { daemon } = await estimating({
      estimate: (_request, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new Error('closed')), { once: true });
        }),
    });
    const all = Array.from({ length: 30 }, (_, n) => daemon.submit(modelled(n + 1)));
    await daemon.close();
    for (const one of all) await expect(one).rejects.toThrow('closed');
    // Node warns a moment later.
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', warned);
    expect(warnings).toEqual([]);
  });

  it('do not hold up those whose figure is stated', async () => {
    const { clock, daemon, seen } = await estimating({ estimatesAtOnce: 2 });
    const slow = Promise.all([1, 2, 3].map((batch) => daemon.submit(modelled(batch))));
    await clock.advance(1);
    expect(seen.working).toBe(2);
    const { id, state } = await daemon.submit({ command: ['true'], memoryBytes: GiB });
    expect([id, state]).toEqual(['1', 'waiting']);
    await clock.advance(20);
    expect((await slow).map((job) => job.id)).toEqual(['2', '3', '4']);
    await daemon.close();
  });

  it('may wait as long as they said, however long their estimate took', async () => {
    const { clock, daemon } = await estimating({ estimatesAtOnce: 2 });
    await daemon.submit({ command: ['true'], memoryBytes: 89 * GiB });
    const late = daemon.submit({ ...modelled(1), timeoutSeconds: 5 });
    await clock.advance(10);
    const { id, submittedAt, waiting } = await late;
    expect(Date.parse(waiting?.expiresAt ?? '') - Date.parse(submittedAt)).toBe(5000);
    await clock.advance(4);
    expect(daemon.job(id).state).toBe('waiting');
    await clock.advance(3);
    expect(daemon.job(id).state).toBe('expired');
    await daemon.close();
  });

  it('are corrected by what was measured, though the estimate is the same', async () => {
    const { clock, daemon } = await estimating();
    const first = daemon.submit(modelled(1));
    await clock.advance(10);
    expect((await first).need).toMatchObject({ bytes: 10 * GiB, basis: 'estimated' });
    await clock.advance(200);
    expect(daemon.counts().succeeded).toBe(1);
    const second = daemon.submit(modelled(1));
    await clock.advance(10);
    expect((await second).need).toMatchObject({ basis: 'measured', runs: 1 });
    expect((await second).need.bytes).toBeLessThan(2 * GiB);
    await daemon.close();
  });

  it('say that they were degraded as long as they are kept, also after their end', async () => {
    const large = { ...found.peak, deviceBytes: 120 * GiB, leastCapacityBytes: 120 * GiB };
    const { clock, daemon } = await estimating({
      estimate: () => Promise.resolve({ ...found, peak: large }),
      plan: () =>
        Promise.resolve({
          settings: {
            batch: 2,
            accumulation: 4,
            checkpointing: false,
            precision: 'fp32',
            quantization: 'none',
            offload: 'none',
            optimizer: 'adamw',
            lora: 'none',
            gpus: 1,
            zero: 0,
          },
          fits: true,
          surely: true,
          estimate: found,
          hostBytes: 0,
          relativeCost: 1,
          concession: 'speed',
          givesUp: [],
          alternatives: [],
          notes: [],
        }),
    });
    const command = ['true', '{batch_size}', '{accumulation}'];
    const why =
      'As asked, it needs 121.0 GiB (estimated); the largest reservation any device allows is 90.0 GiB. It runs with batch 2 x 4 instead, which needs 10.0 GiB (estimated).';
    const job = await daemon.submit({ command, workload: { model: '/m/config.json', batch: 8 } });
    const degraded = { batch: 2, accumulation: 4, why };
    expect(job).toMatchObject({ state: 'waiting', reason: why, degraded });
    await clock.advance(1);
    expect(daemon.job(job.id)).toMatchObject({ state: 'running', reason: why, degraded });
    await clock.advance(200);
    expect(daemon.job(job.id)).toMatchObject({ state: 'succeeded', reason: why, degraded });
    expect(daemon.jobs({})[0]).toMatchObject({ reason: why, degraded });
    await daemon.close();
  });
});
