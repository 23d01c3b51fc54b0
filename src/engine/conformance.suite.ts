import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MiB } from '../units/bytes.js';
import {
  type ClusterEngine,
  type ClusterJob,
  type ClusterOrder,
  hasClusterEnded,
} from './cluster.js';

/** The parts a cluster provides for the suite. */
export interface EngineUnderTest {
  readonly engine: ClusterEngine;
  /** A folder that the nodes see, too. */
  readonly cwd: string;
  /** A shell command that takes this much of the host's memory for a moment. */
  readonly taking: (bytes: number) => readonly string[];
  /** Optional abilities of the engine. */
  readonly does: {
    /** A job that ran out of memory is submitted again with more; else the next of its workload has more. */
    readonly asksAgain: boolean;
    readonly previews: boolean;
  };
  close(): Promise<void> | void;
}

const lookMs = 500;

/** The rules for every engine. Waits have no limit of their own. */
export function engineConformance(name: string, open: () => Promise<EngineUnderTest>): void {
  describe(`the engine ${name}`, () => {
    let under: EngineUnderTest;
    beforeAll(async () => {
      under = await open();
    });
    afterAll(() => under?.close());

    const order = (change: Partial<ClusterOrder> = {}): ClusterOrder => ({
      name: 'conformance',
      command: ['sh', '-c', 'echo hello; exit 0'],
      cwd: under.cwd,
      gpus: 0,
      needBytes: 64 * MiB,
      basis: 'stated',
      estimatedBytes: 'unknown',
      workloadKey: `key-${Math.random()}`.replace('.', ''),
      batch: 'unknown',
      maxAttempts: 3,
      options: [],
      ...change,
    });
    const until = async (id: string, isReached: (job: ClusterJob) => boolean) => {
      for (;;) {
        const job = await under.engine.job(id);
        if (isReached(job) || hasClusterEnded(job.state)) return job;
        await new Promise((resolve) => setTimeout(resolve, lookMs));
      }
    };
    const ended = (id: string) => until(id, ({ state }) => hasClusterEnded(state));
    const failureOf = (work: Promise<unknown>) =>
      work.then(
        () => 'no failure',
        (error: unknown) => (error instanceof Error && 'code' in error ? error.code : error),
      );

    it('runs a job to its end, with its log, its peak and its exit code', async () => {
      const command = ['sh', '-c', 'echo hello; sleep 3'];
      const { id } = await under.engine.submit(order({ command }));
      const job = await ended(id);
      expect(job).toMatchObject({ id, state: 'succeeded', engine: under.engine.name });
      expect(job.attempts).toHaveLength(1);
      expect(job.attempts[0]).toMatchObject({ exitCode: 0, outOfMemory: false });
      expect(job.attempts[0]?.peakBytes).toBeTypeOf('number');
      expect((await under.engine.log(id, 0)).toString()).toContain('hello\n');
      expect((await under.engine.log(id, 1_000_000)).length).toBe(0);
    });

    it('answers the exit code of a job that fails, and does not try it again', async () => {
      const { id } = await under.engine.submit(order({ command: ['sh', '-c', 'exit 7'] }));
      const job = await ended(id);
      expect(job.state).toBe('failed');
      expect(job.attempts.map(({ exitCode }) => exitCode)).toEqual([7]);
    });

    it('asks for more after out-of-memory, and ends well', async () => {
      const command = under.taking(200 * MiB);
      const first = await ended((await under.engine.submit(order({ command }))).id);
      const attempts = [...first.attempts];
      for (let last = first; !under.does.asksAgain && last.state !== 'succeeded'; ) {
        last = await ended(
          (await under.engine.submit(order({ command, needBytes: 'unknown' }))).id,
        );
        attempts.push(...last.attempts);
      }
      if (under.does.asksAgain) expect(first.state).toBe('succeeded');
      expect(attempts.length).toBeGreaterThan(1);
      expect(attempts.map(({ outOfMemory }) => outOfMemory).at(0)).toBe(true);
      expect(attempts.map(({ outOfMemory }) => outOfMemory).at(-1)).toBe(false);
      const reserved = attempts.map(({ reservedBytes }) => Number(reservedBytes));
      expect(reserved).toEqual(reserved.toSorted((a, b) => a - b));
    });

    it('gives up after the attempts that it was given', async () => {
      const { id } = await under.engine.submit(
        order({ command: under.taking(400 * MiB), maxAttempts: 1 }),
      );
      const job = await ended(id);
      expect(job).toMatchObject({ state: 'failed', attempts: [{ outOfMemory: true }] });
    });

    it('cancels a job that runs; one that ended is told', async () => {
      const { id } = await under.engine.submit(order({ command: ['sleep', '100000'] }));
      expect((await until(id, ({ state }) => state === 'running')).state).toBe('running');
      await under.engine.cancel(id);
      expect((await ended(id)).state).toBe('cancelled');
      expect(await failureOf(under.engine.cancel(id))).toBe('job-has-ended');
    });

    it('lists the newest first, and knows no other jobs', async () => {
      const first = await under.engine.submit(order({ name: 'first' }));
      const second = await under.engine.submit(order({ name: 'second' }));
      const ids = (await under.engine.jobs(1000)).map(({ id }) => id);
      expect(ids.indexOf(second.id)).toBeLessThan(ids.indexOf(first.id));
      for (const work of ['job', 'cancel'] as const) {
        expect(await failureOf(under.engine[work]('no-such-job'))).toBe('unknown-job');
      }
      expect(await failureOf(under.engine.log('no-such-job', 0))).toBe('unknown-job');
      await Promise.all([ended(first.id), ended(second.id)]);
    });

    it('shows what it would submit, and submits nothing', async ({ skip }) => {
      skip(!under.does.previews, 'a server of ours shows nothing before');
      const before = (await under.engine.jobs(1000)).length;
      expect(await under.engine.preview(order({ name: 'only-shown' }))).toContain('only-shown');
      expect(await under.engine.jobs(1000)).toHaveLength(before);
    });

    it('refuses what no GPU of the cluster holds, and submits nothing', async () => {
      const before = (await under.engine.jobs(1000)).length;
      const huge = order({ gpus: 1, needBytes: 10_000 * 1024 * MiB });
      expect(await failureOf(under.engine.submit(huge))).toBe('does-not-fit');
      expect(await under.engine.jobs(1000)).toHaveLength(before);
    });

    it('names its devices with their nodes, and says what holds which memory', async () => {
      const devices = await under.engine.devices();
      expect(devices.length).toBeGreaterThan(0);
      for (const device of devices) expect(device.name).toMatch(/^[^/]+\/gpu:\d+$/);
      const { id } = await under.engine.submit(order({ command: ['sleep', '100000'] }));
      await until(id, ({ state }) => state === 'running');
      const use = (await under.engine.use()).find(({ jobId }) => jobId === id);
      expect(use?.reservedBytes).toBeGreaterThanOrEqual(64 * MiB);
      await under.engine.cancel(id);
      await ended(id);
    });
  });
}
