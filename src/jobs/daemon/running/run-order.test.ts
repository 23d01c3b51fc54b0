import { describe, expect, it } from 'vitest';
import { limitOn } from '../../../run/store/run-plan.js';
import { GiB } from '../../../units/bytes.js';
import type { JobDetails, StoredJob } from '../../store/records.js';
import type { Reservation } from '../../types.js';
import { runOrder } from './job-runner.js';

function stored(details: JobDetails = {}, alone = false): StoredJob {
  return {
    job: {
      id: '1',
      name: 'n',
      owner: 'owner',
      state: 'running',
      reason: null,
      command: ['train'],
      priority: 0,
      submittedAt: '',
      reservation: null,
      attempts: [],
    },
    need: { bytes: 10 * GiB, basis: 'stated', gpus: 1 },
    turn: 0,
    workloadKey: 'k',
    details,
    submittedMs: 0,
    deadlineMs: undefined,
    startedMs: undefined,
    endedMs: undefined,
    runId: undefined,
    alone,
    estimating: false,
    ending: undefined,
  };
}
const order = (
  job: StoredJob,
  devices: readonly string[],
  reservation: Reservation = { devices, bytes: 10 * GiB, basis: 'stated' },
) =>
  runOrder({
    stored: job,
    runId: 'r',
    reservation,
    atMs: 0,
    folder: '/srv',
    log: '/log',
    contextBytes: () => GiB,
  });

describe('runOrder', () => {
  it('holds a job to its promise: on a GPU less the context, on the host to all of it', () => {
    expect(order(stored(), ['gpu:1', 'gpu:2'])).toMatchObject({
      memoryBytes: 10 * GiB,
      contextBytes: GiB,
      devices: ['gpu:1', 'gpu:2'],
      pinnedDevice: true,
      settings: { device: 'gpu:1', batch_size: 'unknown', accumulation: 1, precision: 'fp32' },
      folder: '/srv',
    });
    expect(limitOn(order(stored(), ['gpu:1']), 'gpu:1')).toBe(9 * GiB);
    expect(limitOn(order(stored(), ['host']), 'host')).toBe(10 * GiB);
    expect(order(stored({}, true), ['gpu:0']).memoryBytes).toBeNull();
    expect(order(stored({}, true), ['host']).memoryBytes).toBe(10 * GiB);
  });

  it('tells the run that its device is not there', () => {
    const reservation = {
      devices: ['gpu:0'],
      bytes: GiB,
      basis: 'stated',
      simulated: true,
    } as const;
    const { settings } = order(stored(), ['gpu:0'], reservation);
    expect(settings).toMatchObject({ device: 'gpu:0', simulated_device: true });
    expect(order(stored(), ['gpu:0']).settings).not.toHaveProperty('simulated_device');
  });

  it('tells the run what was changed in its environment', () => {
    const change = { name: 'A', from: null, to: '1', by: 'submit', reason: 'why' } as const;
    const environmentChanges = [change];
    expect(order(stored({ environmentChanges }), ['host'])).toMatchObject({ environmentChanges });
    expect(order(stored(), ['host'])).not.toHaveProperty('environmentChanges');
  });

  it('runs it with what a plan set, where there is one', () => {
    const details = {
      cwd: '/job',
      env: { A: 'b' },
      batch: 32,
      workload: { precision: 'bf16' },
    };
    expect(order(stored(details), ['host'])).toMatchObject({
      folder: '/job',
      environment: { A: 'b' },
      settings: { batch_size: 32, accumulation: 1, precision: 'bf16' },
    });
    const settings = { batch: 8, accumulation: 4 };
    expect(order(stored({ ...details, settings }), ['host']).settings).toMatchObject({
      batch_size: 8,
      accumulation: 4,
      precision: 'bf16',
    });
  });

  it('tells the program what its memory was estimated with', () => {
    const workload = { checkpointing: true, precision: 'bf16' };
    const asked = order(stored({ workload }), ['gpu:0']).settings;
    expect(asked).toMatchObject({ checkpointing: true, precision: 'bf16' });
    const settings = { batch: 8, accumulation: 1, checkpointing: true, precision: 'bf16' } as const;
    const degraded = order(stored({ settings }), ['gpu:0']).settings;
    expect(degraded).toMatchObject({ checkpointing: true, precision: 'bf16' });
  });
});
