import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Discovery } from '../../device/discover.js';
import type { Device } from '../../device/types.js';
import { readDeviceUse } from '../../device/use-file.js';
import { createVirtualClock, type VirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import { fakeDevice, memory } from '../../watch/fake-device-for-tests.js';
import { JobStore } from '../store/job-store.js';
import { storeFailure } from '../store/store-failures.js';
import { FakeMachine, type FakeProgram } from './fake-engine-for-tests.js';
import { openDaemon } from './open-daemon.js';
import type { DaemonOptions } from './options.js';
import type { Daemon, DaemonEvent, JobRequest } from './types.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-daemon-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const total = 100 * GiB;
const line = 90 * GiB;

/** GPUs whose memory is held by the programs of the fake machine, and by strangers. */
function simulation(gpus: number, programs: Readonly<Record<string, FakeProgram>> = {}) {
  const clock = createVirtualClock();
  const others = new Map<string, number>();
  const machine = new FakeMachine(
    clock,
    ({ command }) => programs[command.join(' ')] ?? { seconds: 10, bytes: GiB },
  );
  const devices = Array.from({ length: gpus }, (_, index) => {
    const id = `gpu:${index}`;
    return fakeDevice({
      id,
      read: () => memory(machine.heldBytes(id) + (others.get(id) ?? 0), total),
      processes: () => Promise.resolve(machine.processes(id)),
    });
  });
  const discovery: Discovery = {
    devices,
    notes: [],
    rescan: () => Promise.resolve({ appeared: [], vanished: [] }),
    close() {},
  };
  return { clock, machine, discovery, others };
}

type Simulation = ReturnType<typeof simulation>;

function open(
  { clock, machine, discovery }: Simulation,
  more: Partial<DaemonOptions> = {},
): Promise<Daemon> {
  return openDaemon({
    home,
    discovery,
    engine: machine.engine(),
    environment: { PATH: process.env['PATH'] },
    folder: home,
    clock,
    watch: { intervalSeconds: 0.5, processIntervalSeconds: 10 },
    ...more,
  });
}

const job = (name: string, parts: Partial<JobRequest> = {}): JobRequest => ({
  command: ['true', name],
  memoryBytes: 10 * GiB,
  ...parts,
});

async function states(daemon: Daemon, clock: VirtualClock): Promise<readonly string[]> {
  await clock.advance(0);
  return daemon.jobs({}).map(({ id, state }) => `${id} ${state}`);
}

describe('the daemon', () => {
  it('packs jobs up to the load line, and starts the next when memory came back', async () => {
    const world = simulation(1);
    const daemon = await open(world);
    for (const name of ['a', 'b', 'c']) await daemon.submit(job(name, { memoryBytes: 40 * GiB }));
    await world.clock.advance(2);
    expect(await states(daemon, world.clock)).toEqual(['1 running', '2 running', '3 waiting']);
    expect(daemon.job('3').waiting).toMatchObject({
      position: 1,
      why: 'It needs 40.0 GiB on a device; the most that is free is 10.0 GiB. gpu:0 is kept for it.',
    });
    await world.clock.advance(10);
    expect(await states(daemon, world.clock)).toEqual(['1 succeeded', '2 succeeded', '3 running']);
    await world.clock.advance(20);
    expect(daemon.counts()).toMatchObject({ succeeded: 3, running: 0, waiting: 0 });
    expect(daemon.devices()[0]).toMatchObject({ reservedBytes: 0, availableBytes: line });
    await daemon.close();
  });

  it('starts a job at a later occasion when its start could not be stored', async () => {
    const world = simulation(1);
    const daemon = await open(world);
    const start = vi.spyOn(JobStore.prototype, 'start');
    start.mockImplementationOnce(() => {
      throw storeFailure('disk-full', home);
    });
    try {
      await daemon.submit(job('a', { memoryBytes: 40 * GiB }));
      await world.clock.advance(3);
      expect(start).toHaveBeenCalledTimes(2);
      expect(await states(daemon, world.clock)).toEqual(['1 running']);
    } finally {
      start.mockRestore();
      await daemon.close();
    }
  });

  it('tries a job alone of which nothing is known, and learns from it', async () => {
    const programs = { 'true x': { seconds: 10, bytes: 20 * GiB } };
    const world = simulation(1, programs);
    const daemon = await open(world);
    const request = { command: ['true', 'x'] };
    for (let n = 0; n < 4; n++) await daemon.submit(request);
    expect(daemon.job('1').need).toMatchObject({ bytes: line, basis: 'unknown', runs: 0 });
    await world.clock.advance(5);
    expect(await states(daemon, world.clock)).toEqual([
      '1 running',
      '2 waiting',
      '3 waiting',
      '4 waiting',
    ]);
    // The others were alike: what the first one took is what they need now, and they fit together.
    await world.clock.advance(8);
    expect(await states(daemon, world.clock)).toEqual([
      '1 succeeded',
      '2 running',
      '3 running',
      '4 running',
    ]);
    expect(daemon.status().waitingBytes).toBe(0);
    expect(daemon.job('4').need).toMatchObject({ bytes: 22 * GiB, basis: 'measured', runs: 1 });
    expect(daemon.job('4').need.why).toMatch(/^Measured in 1 run: at most 20.0 GiB/);
    const { need } = await daemon.submit(request);
    expect(need.basis).toBe('measured');
    await daemon.close();
  });

  it('gives a job without an estimate what other processes leave, and waits where that is too little', async () => {
    const world = simulation(1);
    world.others.set('gpu:0', 20 * GiB);
    const daemon = await open(world);
    await daemon.submit({ command: ['true', 'x'] });
    await world.clock.advance(2);
    expect(daemon.job('1').reservation).toMatchObject({ bytes: 70 * GiB, simulated: true });
    await daemon.close();
    rmSync(home, { recursive: true });
    const full = simulation(1);
    full.others.set('gpu:0', 60 * GiB);
    const other = await open(full);
    await other.submit({ command: ['true', 'x'] });
    await full.clock.advance(5);
    expect(other.job('1').state).toBe('waiting');
    expect(other.job('1').waiting?.why).toMatch(/Other processes are using the memory/);
    full.others.set('gpu:0', GiB);
    await full.clock.advance(5);
    expect(other.job('1').state).toBe('running');
    await other.close();
  });

  it('refuses at once what will never fit, with the reason', async () => {
    const world = simulation(2);
    const daemon = await open(world);
    const large = await daemon.submit(job('a', { memoryBytes: 95 * GiB }));
    expect(large).toMatchObject({ state: 'refused' });
    expect(large.reason).toBe(
      'It needs 95.0 GiB (stated); the largest reservation any device allows is 90.0 GiB.',
    );
    const wide = await daemon.submit(job('b', { gpus: 3 }));
    expect(wide.reason).toBe('It asks for 3 GPUs at once; there are 2.');
    expect(daemon.counts().refused).toBe(2);
    await daemon.close();
  });

  it('lets a job wait as long as it may, and no longer', async () => {
    const world = simulation(1, { 'true long': { seconds: 1000, bytes: GiB } });
    const daemon = await open(world, { variables: { waitTimeoutSeconds: 100 } });
    await daemon.submit(job('long', { memoryBytes: 60 * GiB }));
    await daemon.submit(job('b', { memoryBytes: 60 * GiB, timeoutSeconds: 30 }));
    await daemon.submit(job('c', { memoryBytes: 60 * GiB }));
    await world.clock.advance(40);
    expect(await states(daemon, world.clock)).toEqual(['1 running', '2 expired', '3 waiting']);
    await world.clock.advance(70);
    expect(daemon.job('3')).toMatchObject({ state: 'expired', endedAt: expect.any(String) });
    expect(daemon.job('3').reason).toMatch(/waited as long as it was allowed to/);
    await daemon.close();
  });

  it('lets no jump of the date end a waiting, move a turn, or change how long a job is expected', async () => {
    const world = simulation(1, { 'true long': { seconds: 1000, bytes: GiB } });
    const { clock } = world;
    const first = await open(world);
    await first.submit(job('long', { memoryBytes: 60 * GiB }));
    await clock.advance(2);
    await first.submit(job('b', { memoryBytes: 60 * GiB, timeoutSeconds: 300 }));
    clock.jump(86_400);
    await clock.advance(100);
    expect(await states(first, clock)).toEqual(['1 running', '2 waiting']);
    const { expiresAt } = first.job('2').waiting ?? {};
    expect(Date.parse(String(expiresAt)) - clock.epochMs()).toBe(200_000);
    clock.jump(-7 * 86_400);
    // It came later, whatever the date said when it did.
    await first.submit(job('c', { memoryBytes: 60 * GiB }));
    expect(first.job('2').waiting?.position).toBe(1);
    await first.close();
    // Set again while no daemon runs: the machine has been running all the time.
    clock.jump(30 * 86_400);
    await clock.advance(100);
    const second = await open(world);
    await clock.advance(1);
    expect(await states(second, clock)).toEqual(['1 running', '2 waiting', '3 waiting']);
    expect(second.job('2').waiting?.position).toBe(1);
    await clock.advance(100);
    expect(await states(second, clock)).toEqual(['1 running', '2 expired', '3 waiting']);
    await second.close();
  });

  it('warns a job that takes more than it was promised, then holds it to that', async () => {
    const world = simulation(1, { 'true greedy': { seconds: 1000, bytes: 20 * GiB } });
    const daemon = await open(world);
    const heard: DaemonEvent[] = [];
    daemon.listen((event) => heard.push(event));
    await daemon.submit(job('greedy'));
    await world.clock.advance(5);
    expect(daemon.job('1')).toMatchObject({ state: 'running', usedBytes: 20 * GiB });
    const warned = heard.filter((event) => event.type === 'job').map(({ what }) => what);
    expect(warned).toContainEqual(
      'It uses 20.0 GiB of a device; it reserved 10.0 GiB. If it still does in 10 s, it is ended.',
    );
    await world.clock.advance(15);
    expect(daemon.job('1')).toMatchObject({
      state: 'failed',
      reason: 'Ended: It uses 20.0 GiB of a device; it reserved 10.0 GiB, and it was warned.',
    });
    const { bytes } = await daemon.readLog('1', 0, 1000);
    expect(Buffer.from(bytes).toString()).toMatch(/^plimsoll: It uses 20.0 GiB/);
    await daemon.close();
  });

  it('cancels what waits and what runs, and says so where there is nothing to cancel', async () => {
    const world = simulation(1, { 'true a': { seconds: 1000, bytes: GiB } });
    const daemon = await open(world);
    await daemon.submit(job('a', { memoryBytes: 60 * GiB }));
    await daemon.submit(job('b', { memoryBytes: 60 * GiB }));
    await world.clock.advance(2);
    expect((await daemon.cancel('2')).state).toBe('cancelled');
    await daemon.cancel('1');
    await world.clock.advance(2);
    expect(daemon.job('1')).toMatchObject({ state: 'cancelled', reason: 'Cancelled.' });
    await expect(daemon.cancel('1')).rejects.toMatchObject({ code: 'job-has-ended' });
    await expect(daemon.cancel('99')).rejects.toMatchObject({ code: 'unknown-job' });
    await daemon.close();
  });

  it('takes up what ran and what waited when it comes back', async () => {
    const world = simulation(1, { 'true a': { seconds: 50, bytes: 5 * GiB } });
    const first = await open(world);
    await first.submit(job('a', { memoryBytes: 60 * GiB }));
    await first.submit(job('b', { memoryBytes: 60 * GiB }));
    await world.clock.advance(2);
    await first.close();
    await world.clock.advance(10);
    const second = await open(world);
    await world.clock.advance(2);
    expect(await states(second, world.clock)).toEqual(['1 running', '2 waiting']);
    expect(second.devices()[0]).toMatchObject({ reservedBytes: 60 * GiB });
    await second.close();
    // It ends while no daemon runs.
    await world.clock.advance(60);
    const third = await open(world);
    await world.clock.advance(3);
    expect(await states(third, world.clock)).toEqual(['1 succeeded', '2 running']);
    expect([...world.machine.begun]).toEqual([
      ['true a', 1],
      ['true b', 1],
    ]);
    await third.close();
  });

  it('remembers across a restart that a job was cancelled', async () => {
    const world = simulation(1, { 'true a': { seconds: 1000, bytes: GiB } });
    const first = await open(world);
    await first.submit(job('a'));
    await world.clock.advance(2);
    // Its engine is gone before it could ask the program.
    const deaf = world.machine.engine();
    await first.close();
    const second = await open(world, {
      engine: {
        ...deaf,
        openRun: () => ({
          stop() {},
          limit() {},
          limitAsked: () => undefined,
          progress: () => [],
          release() {},
        }),
      },
    });
    await second.cancel('1');
    expect(second.job('1')).toMatchObject({
      state: 'running',
      reason: 'Cancelled. It is being ended.',
    });
    await second.close();
    const third = await open(world);
    await world.clock.advance(2);
    expect(third.job('1').state).toBe('cancelled');
    await third.close();
  });

  it('tells what happens, and tells it again to those who missed it', async () => {
    const world = simulation(1);
    const daemon = await open(world);
    const heard: DaemonEvent[] = [];
    const stop = daemon.listen((event) => heard.push(event));
    await daemon.submit(job('a'));
    await world.clock.advance(20);
    stop();
    const changes = heard.filter((event) => event.type === 'job');
    expect(changes.map(({ what }) => what)).toEqual(['submitted', 'started', 'attempt', 'ended']);
    expect(changes.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
    expect(heard.some((event) => event.type === 'queue')).toBe(true);
    const devices = heard.filter((event) => event.type === 'devices');
    expect(devices.length).toBeGreaterThan(10);
    const { events, first, last } = daemon.eventsAfter(2, 100);
    expect({ first, last }).toEqual({ first: 1, last: 4 });
    expect(events.map((event) => event.type === 'job' && event.what)).toEqual(['attempt', 'ended']);
    const count = heard.length;
    await world.clock.advance(5);
    expect(heard.length).toBe(count);
    await daemon.close();
  });

  it('answers the job that is there when it is sent again', async () => {
    const world = simulation(1);
    const daemon = await open(world);
    const [one, two] = await Promise.all([
      daemon.submit(job('a', { submission: 'once' })),
      daemon.submit(job('a', { submission: 'once' })),
    ]);
    expect(two.id).toBe(one.id);
    expect(daemon.counts().waiting + daemon.counts().running).toBe(1);
    await daemon.close();
  });

  it('forgets what is long over, with its files', async () => {
    const world = simulation(1);
    const daemon = await open(world, { keep: { endedJobs: 2, runs: 1, events: 5 } });
    for (let n = 0; n < 5; n++) await daemon.submit(job(`j${n}`));
    await world.clock.advance(30);
    for (let n = 1; n <= 5; n++) expect(daemon.jobHistory(String(n)).epochMs).not.toEqual([]);
    await world.clock.advance(700);
    expect(daemon.jobs({}).map(({ id }) => id)).toEqual(['4', '5']);
    expect(readdirSync(join(home, 'jobs')).toSorted()).toEqual(['4', '5']);
    expect(world.machine.runs.size).toBe(1);
    // Of the changes that are kept, those of forgotten jobs have nothing to show any more.
    const { events, first, last } = daemon.eventsAfter(0, 100);
    expect(last - first).toBe(4);
    expect(events.every((event) => event.type === 'job' && Number(event.job.id) > 3)).toBe(true);
    expect(daemon.counts().succeeded).toBe(2);
    await daemon.close();
  });

  it('keeps what it writes to itself', async () => {
    const world = simulation(1);
    const daemon = await open(world);
    await daemon.submit(job('a', { env: { SECRET: 's3cret' } }));
    await world.clock.advance(15);
    const mode = (path: string) => (statSync(join(home, path)).mode & 0o777).toString(8);
    expect(mode('jobs.db')).toBe('600');
    expect(mode('jobs')).toBe('700');
    expect(mode('jobs/1/memory.json')).toBe('600');
    await daemon.close();
  });

  it('runs as many at the same time as it may, and spreads over the devices it may use', async () => {
    const world = simulation(3);
    const variables = { maxRunning: 2, devices: ['gpu:1', 'gpu:2'] };
    const daemon = await open(world, { variables, policy: 'balanced' });
    for (const name of ['a', 'b', 'c']) await daemon.submit(job(name));
    await world.clock.advance(2);
    const placed = daemon.jobs({ states: ['running'] }).map((one) => one.reservation?.devices);
    expect(placed).toEqual([['gpu:1'], ['gpu:2']]);
    expect(daemon.devices().map(({ takesJobs }) => takesJobs)).toEqual([false, true, true]);
    expect(daemon.status()).toMatchObject({
      activeJobs: 2,
      waitingJobs: 1,
      reservedBytes: 20 * GiB,
      waitingBytes: 10 * GiB,
    });
    await daemon.close();
  });
});

describe('a limit that moves', () => {
  const programs = {
    'true gives': { seconds: 1000, bytes: 60 * GiB, leastBytes: 20 * GiB },
    'true keeps': { seconds: 1000, bytes: 30 * GiB },
    'true urgent': { seconds: 20, bytes: 50 * GiB },
  };
  const reserved = (daemon: Daemon, id: string) => daemon.job(id).reservation?.bytes;

  it('is reserved at once where it grows, and where it shrinks when the program keeps to it', async () => {
    const world = simulation(1, programs);
    const daemon = await open(world);
    await daemon.submit(job('gives', { memoryBytes: 60 * GiB }));
    await world.clock.advance(2);
    expect(daemon.job('1').limit).toBeNull();
    await daemon.limit('1', 30 * GiB);
    expect(daemon.job('1').limit).toEqual({ askedBytes: 30 * GiB, state: 'asked', why: '' });
    expect(reserved(daemon, '1')).toBe(60 * GiB);
    await world.clock.advance(2);
    expect(daemon.job('1').limit?.state).toBe('set');
    expect(reserved(daemon, '1')).toBe(30 * GiB);
    expect(daemon.devices()[0]).toMatchObject({ reservedBytes: 30 * GiB });
    await expect(daemon.limit('1', 91 * GiB)).rejects.toMatchObject({ code: 'no-room' });
    const higher = await daemon.limit('1', 90 * GiB);
    expect(higher.reservation?.bytes).toBe(90 * GiB);
    await daemon.close();
  });

  it('stays where the program cannot give way, and says so', async () => {
    const world = simulation(1, programs);
    const daemon = await open(world);
    await daemon.submit(job('gives', { memoryBytes: 60 * GiB }));
    await daemon.submit(job('keeps', { memoryBytes: 30 * GiB }));
    await world.clock.advance(2);
    await daemon.limit('1', 10 * GiB);
    await daemon.limit('2', 10 * GiB);
    await world.clock.advance(2);
    const why = 'With less it cannot go on.';
    expect(daemon.job('1').limit).toMatchObject({ state: 'kept', why });
    expect(reserved(daemon, '1')).toBe(20 * GiB);
    expect(daemon.job('2').limit).toMatchObject({ state: 'kept', why });
    expect(reserved(daemon, '2')).toBe(30 * GiB);
    await expect(daemon.limit('3', GiB)).rejects.toMatchObject({ code: 'unknown-job' });
    await daemon.submit(job('late', { memoryBytes: 80 * GiB }));
    await expect(daemon.limit('3', GiB)).rejects.toMatchObject({ code: 'job-not-running' });
    await daemon.close();
  });

  it('lets a job of a higher priority in, and comes back when that leaves, over a restart too', async () => {
    const world = simulation(1, programs);
    const first = await open(world);
    await first.submit(job('gives', { memoryBytes: 60 * GiB, elastic: { leastBytes: 20 * GiB } }));
    await world.clock.advance(2);
    await first.submit(job('urgent', { memoryBytes: 50 * GiB, priority: 5 }));
    await world.clock.advance(0.5);
    expect(first.job('1').limit).toMatchObject({ askedBytes: 40 * GiB, state: 'asked' });
    await first.close();
    // The program answers while no daemon is there to hear it.
    await world.clock.advance(3);
    const second = await open(world);
    await world.clock.advance(3);
    expect(await states(second, world.clock)).toEqual(['1 running', '2 running']);
    expect([reserved(second, '1'), reserved(second, '2')]).toEqual([40 * GiB, 50 * GiB]);
    await world.clock.advance(25);
    expect(await states(second, world.clock)).toEqual(['1 running', '2 succeeded']);
    expect(reserved(second, '1')).toBe(60 * GiB);
    await second.close();
  });

  it('lets an elastic job start with less than it needs', async () => {
    const world = simulation(1, programs);
    const daemon = await open(world);
    await daemon.submit(job('urgent', { memoryBytes: 50 * GiB }));
    await world.clock.advance(2);
    await daemon.submit(job('gives', { memoryBytes: 60 * GiB, elastic: { leastBytes: 20 * GiB } }));
    await world.clock.advance(2);
    expect(reserved(daemon, '2')).toBe(40 * GiB);
    expect(daemon.job('2').elastic).toEqual({
      slowdown: 1.5,
      leastBytes: 20 * GiB,
      foundBytes: 20 * GiB,
    });
    expect(daemon.request('2').elastic).toEqual({ slowdown: 1.5, leastBytes: 20 * GiB });
    await world.clock.advance(25);
    expect(reserved(daemon, '2')).toBe(60 * GiB);
    // More than any device has: it takes all of one.
    await daemon.submit(job('huge', { memoryBytes: 200 * GiB, elastic: { leastBytes: 80 * GiB } }));
    expect(daemon.job('3')).toMatchObject({ state: 'waiting', need: { bytes: 90 * GiB } });
    await daemon.close();
  });
});

describe('whatever happens', () => {
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('submit' as const),
        statedGiB: fc.integer({ min: 1, max: 100 }),
        // What it takes is not always what was said.
        share: fc.constantFrom(0.2, 0.9, 1, 1, 1.5),
        seconds: fc.integer({ min: 1, max: 60 }),
        gpus: fc.integer({ min: 1, max: 3 }),
        priority: fc.integer({ min: -2, max: 2 }),
        states: fc.boolean(),
        fails: fc.boolean(),
        /** It may start with that share of its need, and keeps to a limit that is not below it. */
        least: fc.constantFrom(1, 1, 0.3, 0.6),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('limit' as const),
        which: fc.nat(20),
        GiB: fc.integer({ min: 1, max: 100 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        seconds: fc.integer({ min: 1, max: 40 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('crash' as const),
        seconds: fc.integer({ min: 0, max: 20 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat(20) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('strangers' as const),
        gpu: fc.nat(1),
        GiB: fc.integer({ min: 0, max: 40 }),
      }),
    },
  );

  it('no line is passed, no job is lost or begun twice, and each comes to its end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (steps) => {
        rmSync(home, { recursive: true, force: true });
        const programs: Record<string, FakeProgram> = {};
        const world = simulation(2, programs);
        let daemon = await open(world);
        let submitted = 0;
        const check = () => {
          for (const { reservations, loadLineBytes } of daemon.devices()) {
            const sum = reservations.reduce((bytes, one) => bytes + one.bytes, 0);
            expect(sum).toBeLessThanOrEqual(loadLineBytes);
          }
        };
        for (const one of steps) {
          if (one.do === 'submit') {
            const name = `j${submitted++}`;
            const bytes = Math.round(one.statedGiB * one.share * GiB);
            const leastBytes = Math.ceil(one.statedGiB * one.least * GiB);
            const gives = one.least < 1 && { leastBytes };
            const exitCode = one.fails ? 1 : 0;
            programs[`true ${name}`] = { seconds: one.seconds, bytes, exitCode, ...gives };
            const { statedGiB, gpus, priority } = one;
            const memoryBytes = one.states ? statedGiB * GiB : undefined;
            const elastic = one.least < 1 ? { leastBytes } : undefined;
            const command = ['true', name];
            await daemon.submit({ command, memoryBytes, gpus, priority, elastic });
          } else if (one.do === 'limit') {
            await daemon.limit(String(one.which), one.GiB * GiB).catch(() => {});
            check();
          } else if (one.do === 'wait') {
            for (let second = 0; second < one.seconds; second++) {
              await world.clock.advance(1);
              check();
            }
          } else if (one.do === 'crash') {
            await daemon.close();
            await world.clock.advance(one.seconds);
            daemon = await open(world);
          } else if (one.do === 'cancel') {
            await daemon.cancel(String(one.which)).catch(() => {});
          } else {
            world.others.set(`gpu:${one.gpu}`, one.GiB * GiB);
          }
        }
        world.others.clear();
        // The patience of a held device, and every job after another.
        for (let at = 0; at < 200 && daemon.counts().waiting + daemon.counts().running > 0; at++) {
          await world.clock.advance(60);
          check();
        }
        expect(daemon.counts()).toMatchObject({ waiting: 0, running: 0 });
        expect(daemon.jobs({}).length).toBe(submitted);
        expect([...world.machine.begun.values()].every((times) => times === 1)).toBe(true);
        const begun = daemon.jobs({}).filter(({ startedAt }) => startedAt !== null);
        expect(begun.length).toBe(world.machine.begun.size);
        await daemon.close();
      }),
      { numRuns: 25 },
    );
  });
});

describe('a device that is busy', () => {
  it('is read once a tick, for the watch, the queue and the supervisors together', async () => {
    const simulated = simulation(1, { 'true long': { seconds: 1000, bytes: 4 * GiB } });
    const counts = { reads: 0, lists: 0 };
    const [device] = simulated.discovery.devices;
    if (device === undefined) throw new Error('there is one');
    const counting: Device = {
      info: device.info,
      read: () => {
        counts.reads++;
        return device.read();
      },
      processes: () => {
        counts.lists++;
        return device.processes();
      },
    };
    const discovery = { ...simulated.discovery, devices: [counting] };
    const watch = { intervalSeconds: 0.5, processIntervalSeconds: 1 };
    const daemon = await open({ ...simulated, discovery }, { watch });
    const { id } = await daemon.submit(job('long'));
    await simulated.clock.advance(10);
    expect(daemon.job(id).usedBytes).toBe(4 * GiB);
    counts.reads = 0;
    counts.lists = 0;
    await simulated.clock.advance(60);
    expect(counts.reads).toBe(120);
    expect(counts.lists).toBeLessThanOrEqual(61);
    await daemon.close();
    // What a supervisor would ask the driver for is in the file of the home.
    const shared = readDeviceUse(home, 'gpu:0', simulated.clock.epochMs());
    expect(shared).toEqual([{ pid: 1, usedBytes: 4 * GiB }]);
  });
});
