import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Discovery } from '../../device/discover.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { createVirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import { fakeDevice, memory } from '../../watch/fake-device-for-tests.js';
import { FakeMachine } from './fake-engine-for-tests.js';
import { openDaemon } from './open-daemon.js';
import type { DaemonOptions } from './options.js';
import type { ProgramJob } from './submission/program-need.js';

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

/** Programs whose traces end when the test says so. */
function tracing() {
  const traces: {
    readonly job: ProgramJob;
    readonly signal: AbortSignal;
    readonly end: (estimate: Estimate) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const estimateProgram: DaemonOptions['estimateProgram'] = (job, signal) =>
    new Promise((resolve, reject) => {
      traces.push({ job, signal, end: resolve, fail: reject });
      const next = 'Run it again.';
      const stopped = () =>
        reject(new Failure({ kind: 'interrupted', code: 'interrupted', fact: 'Stopped.', next }));
      if (signal.aborted) stopped();
      else signal.addEventListener('abort', stopped, { once: true });
    });
  return { traces, estimateProgram };
}

const program = (name: string) => ({ command: ['python', `${name}.py`], cwd: '/' });
/** One for which so much is reserved; a GiB of it is the context. */
const reserving = (bytes: number): Estimate => ({
  ...found,
  peak: {
    allocatedBytes: bytes - 2 * GiB,
    reservedBytes: bytes - 2 * GiB,
    deviceBytes: bytes - GiB,
    leastCapacityBytes: bytes - GiB,
  },
  interval: { lowBytes: bytes - 2 * GiB, highBytes: bytes - GiB, confidence: 0.95 },
});

describe('jobs whose program is traced', () => {
  it('are accepted at once, tell how far the trace is, and start when it has ended', async () => {
    const { traces, estimateProgram } = tracing();
    const { clock, daemon } = await estimating({ estimateProgram });
    const accepted = await daemon.submit(program('train'));
    const { id } = accepted;
    expect(accepted).toMatchObject({
      state: 'waiting',
      need: { basis: 'unknown', whyDetails: { code: 'estimating' } },
      waiting: {
        why: 'Its memory is being estimated.',
        whyDetails: { code: 'estimating', ahead: 0, doing: 'unknown', share: 'unknown' },
        expectedStartAt: 'unknown',
      },
    });
    await clock.advance(5);
    expect(daemon.job(id).state).toBe('waiting');
    traces[0]?.job.onProgress?.('The program builds its model', 0.25);
    expect(daemon.jobs({})[0]?.waiting).toMatchObject({
      why: 'Its memory is being estimated: the program builds its model (25 %).',
      whyDetails: { doing: 'The program builds its model', share: 0.25 },
    });
    traces[0]?.end(reserving(20 * GiB));
    await clock.advance(1);
    expect(daemon.job(id)).toMatchObject({
      state: 'running',
      need: { bytes: 20 * GiB, basis: 'estimated', whyDetails: { traced: true } },
    });
    await daemon.close();
  });

  it('are traced one at a time for each owner, and none waits for the traces of another', async () => {
    const { traces, estimateProgram } = tracing();
    const { clock, daemon } = await estimating({ estimateProgram, estimatesAtOnce: 4 });
    for (const name of ['a1', 'a2', 'a3']) await daemon.submit(program(name), { name: 'ada' });
    // Of one owner, priority counts as in the queue.
    await daemon.submit({ ...program('a4'), priority: 1 }, { name: 'ada' });
    await daemon.submit(program('b1'), { name: 'bob' });
    const traced = () => traces.map(({ job }) => job.command[1]);
    await clock.advance(1);
    expect(traced()).toEqual(['a1.py', 'b1.py']);
    const why = (id: string) => daemon.job(id).waiting?.why;
    expect(why('2')).toBe('Its memory will be estimated after 2 other jobs of its owner.');
    expect(why('4')).toBe('Its memory will be estimated after 1 other job of its owner.');
    traces[0]?.end(reserving(95 * GiB));
    await clock.advance(1);
    expect(daemon.job('1')).toMatchObject({
      state: 'refused',
      reasonDetails: { code: 'too-large' },
    });
    expect(daemon.counts()).toMatchObject({ refused: 1, waiting: 4 });
    expect(traced()).toEqual(['a1.py', 'b1.py', 'a4.py']);
    await daemon.close();
  });

  it('hold up no other job, and end with the job', async () => {
    const { traces, estimateProgram } = tracing();
    const { clock, daemon } = await estimating({ estimateProgram });
    await daemon.submit(program('first'));
    await daemon.submit(program('second'));
    const stated = await daemon.submit({ command: ['true'], memoryBytes: 80 * GiB });
    await clock.advance(1);
    expect(daemon.job(stated.id).state).toBe('running');
    expect((await daemon.cancel('1')).state).toBe('cancelled');
    expect(traces[0]?.signal.aborted).toBe(true);
    await clock.advance(1);
    expect(traces.map(({ job }) => job.command[1])).toEqual(['first.py', 'second.py']);
    expect(daemon.job('1').need.why).toBe('It is known once the program has been traced.');
    await daemon.close();
  });

  it('are estimated by the next daemon, where this one ended before', async () => {
    const { traces, estimateProgram } = tracing();
    const first = await estimating({ estimateProgram });
    const account = { uid: 7, gid: 7, name: 'ada', home: '/', shell: '/bin/sh' };
    const request = { ...program('train'), env: { A: 'b' }, estimateTimeoutSeconds: 9 };
    const { id } = await first.daemon.submit(request, { name: 'ada', account });
    await first.clock.advance(1);
    await first.daemon.close();
    expect(traces[0]?.signal.aborted).toBe(true);
    const { clock, daemon } = await estimating({ estimateProgram });
    await clock.advance(1);
    expect(daemon.job(id).waiting?.whyDetails.code).toBe('estimating');
    expect(traces).toHaveLength(2);
    const [before, again] = traces.map(({ job }) => ({ ...job, onProgress: undefined }));
    expect(again).toEqual(before);
    expect(again).toMatchObject({ account, timeoutSeconds: 9, variables: { A: 'b' } });
    traces[1]?.end(reserving(20 * GiB));
    await clock.advance(1);
    expect(daemon.job(id)).toMatchObject({ state: 'running', need: { bytes: 20 * GiB } });
    await daemon.close();
  });

  it('may wait as long as they said from the end of the trace on', async () => {
    const { traces, estimateProgram } = tracing();
    const { clock, daemon } = await estimating({ estimateProgram });
    await daemon.submit({ command: ['true'], memoryBytes: 89 * GiB });
    const { id, waiting } = await daemon.submit({ ...program('late'), timeoutSeconds: 5 });
    expect(waiting?.expiresAt).toBe(null);
    await clock.advance(60);
    traces[0]?.end(reserving(20 * GiB));
    await clock.advance(4);
    expect(daemon.job(id)).toMatchObject({ state: 'waiting', need: { bytes: 20 * GiB } });
    await clock.advance(3);
    expect(daemon.job(id).state).toBe('expired');
    await daemon.close();
  });

  it('need no trace any more once the same command was measured', async () => {
    const { traces, estimateProgram } = tracing();
    const { clock, daemon } = await estimating({ estimateProgram });
    await daemon.submit(program('train'));
    await clock.advance(1);
    traces[0]?.end(reserving(20 * GiB));
    await clock.advance(1);
    const { id } = await daemon.submit(program('train'));
    await clock.advance(1);
    expect(traces).toHaveLength(2);
    await clock.advance(200);
    expect(traces[1]?.signal.aborted).toBe(true);
    expect(daemon.job(id)).toMatchObject({ need: { basis: 'measured', runs: 1 } });
    await daemon.close();
  });

  it('get a whole device where the trace fails, and are refused where that passes a quota', async () => {
    const { traces, estimateProgram } = tracing();
    const quotaOf = (owner: string) => (owner === 'ada' ? { maxMemoryBytes: 10 * GiB } : undefined);
    const { clock, daemon } = await estimating({ estimateProgram, quotaOf });
    await daemon.submit(program('own'));
    await daemon.submit(program('hers'), { name: 'ada' });
    await clock.advance(1);
    for (const { fail } of traces) fail(new Error('It broke'));
    await clock.advance(1);
    expect(daemon.job('1')).toMatchObject({
      state: 'running',
      need: { basis: 'unknown', why: expect.stringContaining('The estimate failed: It broke.') },
    });
    expect(daemon.job('2')).toMatchObject({
      state: 'refused',
      reasonDetails: { code: 'over-quota' },
    });
    await daemon.close();
  });
});
