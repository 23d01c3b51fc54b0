import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Admission, admit, runningFrom } from './admission.js';
import { inOrder } from './admission-order.js';
import { leastElasticBytes, leastOf } from './elastic.js';
import { Ledger } from './ledger.js';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import type { ElasticRun, RunningJob, WaitingJob } from './types.js';

const admitted = (waiting: readonly WaitingJob[], running: readonly RunningJob[] = []): Admission =>
  admit({ waiting, running, rooms: roomsWith(1, running), holds: [], nowMs: 0 });

const elastic = (id: string, bytes: number, run: ElasticRun, priority = 0): RunningJob => ({
  ...runningJob(id, bytes, ['gpu:0']),
  priority,
  elastic: run,
});

describe('the least that an elastic job may start with', () => {
  const point = (memoryBytes: number, expected: number) => ({
    memoryBytes,
    slowdown: { low: expected, expected, high: expected },
  });
  const spill = [point(20, 1), point(12, 1.4), point(8, 1.9)];

  it('is the smallest memory whose step is predicted to be fast enough', () => {
    expect(leastElasticBytes(spill, 1.5)).toBe(12);
    expect(leastElasticBytes(spill, 2)).toBe(8);
    expect(leastElasticBytes(spill, 0.9)).toBeUndefined();
  });

  it('is the one that was told, and none where nothing is known or nothing is saved', () => {
    expect(leastOf({ slowdown: 1.5, leastBytes: 3 }, 20, { spill })).toBe(3);
    expect(leastOf({ slowdown: 1.5 }, 20, { spill })).toBe(12);
    expect(leastOf({ slowdown: 1.5 }, 12, { spill })).toBeUndefined();
    expect(leastOf({ slowdown: 1.5 }, 20, {})).toBeUndefined();
    expect(leastOf({ slowdown: 1.5, leastBytes: 3 }, 'unknown', {})).toBeUndefined();
    expect(leastOf(undefined, 20, { spill })).toBeUndefined();
  });
});

describe('elastic jobs', () => {
  it('start with what is free, where that is enough for them, and in full where it fits', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const job = { ...waitingJob('1', 50), leastBytes: 25 };
    expect(admitted([job], running).starts).toMatchObject([{ reservation: { bytes: 30 } }]);
    expect(admitted([{ ...job, leastBytes: 31 }], running).starts).toEqual([]);
    expect(admitted([{ ...job, leastBytes: undefined }], running).starts).toEqual([]);
    expect(admitted([job]).starts).toMatchObject([{ reservation: { bytes: 50 } }]);
  });

  it('give way to a job of a higher priority, the lowest first, and only where that is enough', () => {
    const running = [
      elastic('low', 40, { needBytes: 40, leastBytes: 15 }),
      elastic('high', 40, { needBytes: 40, leastBytes: 10 }, 5),
    ];
    const head = (bytes: number, priority: number) =>
      admitted([waitingJob('h', bytes, { priority })], running);
    expect(head(30, 3).resizes).toEqual([{ jobId: 'low', bytes: 20 }]);
    expect(head(50, 9).resizes).toEqual([
      { jobId: 'low', bytes: 15 },
      { jobId: 'high', bytes: 25 },
    ]);
    // 10 are free and 25 can be given: 36 are too many.
    expect(head(36, 3).resizes).toEqual([]);
    expect(head(30, 0).resizes).toEqual([]);
  });

  it('are not asked twice for the same room', () => {
    const asked = elastic('a', 80, { needBytes: 80, leastBytes: 20, askedBytes: 50 });
    const head = (bytes: number) => admitted([waitingJob('h', bytes, { priority: 1 })], [asked]);
    expect(head(40).resizes).toEqual([]);
    expect(head(45).resizes).toEqual([{ jobId: 'a', bytes: 45 }]);
  });

  it('take room that nobody waits for, those of the highest priority first', () => {
    const running = [
      elastic('low', 20, { needBytes: 60, leastBytes: 10 }),
      elastic('high', 20, { needBytes: 50, leastBytes: 10 }, 5),
    ];
    expect(admitted([], running).resizes).toEqual([
      { jobId: 'high', bytes: 50 },
      { jobId: 'low', bytes: 40 },
    ]);
    // The device is kept for the one that waits; of the same priority nothing gives way.
    expect(admitted([waitingJob('h', 80)], running).resizes).toEqual([]);
    const asked = elastic('a', 20, { needBytes: 60, leastBytes: 10, askedBytes: 15 });
    expect(admitted([], [asked]).resizes).toEqual([]);
  });
});

interface Living {
  readonly run: RunningJob;
  /** What its program keeps to: at every moment at most what is reserved. */
  readonly limit: number;
}

/** A queue over one device, driven as the scheduler drives it: less is reserved only after the answer. */
class World {
  readonly #ledger = new Ledger([{ id: 'gpu:0', capacityBytes: 100 }], { share: 0.9 });
  readonly #living = new Map<string, Living>();
  #waiting: readonly WaitingJob[] = [];
  #seconds = 0;
  readonly wrong: string[] = [];

  add(job: WaitingJob): void {
    this.#waiting = [...this.#waiting, job];
    this.#admit();
  }

  /** The program answers the lower limit that it was asked for, at least with what it cannot do without. */
  answer(index: number, floor: number): void {
    const living = [...this.#living.values()][index % Math.max(1, this.#living.size)];
    const run = living?.run;
    if (run?.elastic?.askedBytes === undefined) return;
    const limit = Math.min(run.reservation.bytes, Math.max(run.elastic.askedBytes, floor));
    this.#must(this.#ledger.resize(run.id, limit), 'less is always possible');
    this.#set(run, limit, {
      ...run.elastic,
      leastBytes: Math.max(run.elastic.leastBytes, limit),
      askedBytes: undefined,
    });
    this.#admit();
  }

  end(index: number): void {
    const id = [...this.#living.keys()][index % Math.max(1, this.#living.size)];
    if (id === undefined) return;
    this.#living.delete(id);
    this.#ledger.release(id, this.#seconds);
    this.#admit();
  }

  #must(isSo: boolean, what: string): void {
    if (!isSo) this.wrong.push(what);
  }

  #set(run: RunningJob, bytes: number, next: ElasticRun | undefined): void {
    const reservation = { ...run.reservation, bytes };
    this.#living.set(run.id, { run: { ...run, reservation, elastic: next }, limit: bytes });
  }

  #admit(): void {
    this.#seconds++;
    const jobs = new Map([...this.#living].map(([id, { limit }]) => [id, limit]));
    const usedBytes = [...jobs.values()].reduce((sum, bytes) => sum + bytes, 0);
    this.#ledger.observe('gpu:0', { atSeconds: this.#seconds, usedBytes, jobs });
    const rooms = this.#ledger.rooms();
    const running = [...this.#living.values()].map(({ run }) => run);
    const waiting = inOrder(this.#waiting, running, rooms);
    const { starts, resizes } = admit({ waiting, running, rooms, holds: [], nowMs: 0 });
    for (const { jobId, bytes } of resizes) {
      const run = this.#living.get(jobId)?.run;
      if (run?.elastic === undefined) throw new Error(`${jobId} is not elastic`);
      const { leastBytes, needBytes } = run.elastic;
      this.#must(bytes >= leastBytes && bytes <= needBytes, `${jobId} gets ${bytes}`);
      if (bytes < run.reservation.bytes) {
        this.#living.set(jobId, {
          run: { ...run, elastic: { ...run.elastic, askedBytes: bytes } },
          limit: run.reservation.bytes,
        });
      } else {
        this.#must(this.#ledger.resize(jobId, bytes), `${jobId} cannot have ${bytes}`);
        this.#set(run, bytes, run.elastic);
      }
    }
    for (const { job, reservation } of starts) {
      this.#must(this.#ledger.reserve(job.id, reservation) !== undefined, `${job.id} starts`);
      const run = runningFrom(job, reservation, 0);
      this.#living.set(job.id, { run, limit: reservation.bytes });
      this.#waiting = this.#waiting.filter(({ id }) => id !== job.id);
    }
    this.#check();
  }

  #check(): void {
    const [room] = this.#ledger.rooms();
    const promised = (room?.reservedBytes ?? 0) + (room?.releasingBytes ?? 0);
    this.#must(promised <= 90, `${promised} are promised`);
    const held = [...this.#living.values()].reduce((sum, { limit }) => sum + limit, 0);
    this.#must(held <= 90, `${held} are held`);
  }
}

describe('reservations that move', () => {
  it('never pass the line together, whatever comes, ends, gives way or cannot', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('add' as const),
        bytes: fc.integer({ min: 1, max: 90 }),
        least: fc.integer({ min: 1, max: 90 }),
        priority: fc.integer({ min: 0, max: 3 }),
      }),
      fc.record({
        do: fc.constant('answer' as const),
        index: fc.nat(),
        floor: fc.integer({ min: 0, max: 60 }),
      }),
      fc.record({ do: fc.constant('end' as const), index: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const world = new World();
        steps.forEach((one, at) => {
          if (one.do === 'add') {
            const { bytes, least, priority } = one;
            const job = waitingJob(String(at), bytes, { atSeconds: at, priority });
            world.add(least < bytes ? { ...job, leastBytes: least } : job);
          } else if (one.do === 'answer') world.answer(one.index, one.floor);
          else world.end(one.index);
        });
        expect(world.wrong).toEqual([]);
      }),
    );
  });

  it('move up only into free room, and down at any time', () => {
    const ledger = new Ledger([{ id: 'gpu:0', capacityBytes: 100 }], { share: 0.9 });
    const read = (atSeconds: number, jobs: Record<string, number>) =>
      ledger.observe('gpu:0', {
        atSeconds,
        usedBytes: Object.values(jobs).reduce((sum, bytes) => sum + bytes, 0),
        jobs: new Map(Object.entries(jobs)),
      });
    read(0, {});
    const reservation = (bytes: number) =>
      ({ devices: ['gpu:0'], bytes, basis: 'stated' }) as const;
    ledger.reserve('1', reservation(40));
    ledger.reserve('2', reservation(40));
    expect(ledger.resize('1', 51)).toBe(false);
    expect(ledger.resize('1', 50)).toBe(true);
    expect(ledger.resize('1', 10)).toBe(true);
    expect(ledger.rooms()[0]).toMatchObject({ reservedBytes: 50, freeBytes: 40 });
    // It says that it gave way, and the device says otherwise: what it uses counts.
    read(1, { 1: 45 });
    expect(ledger.rooms()[0]?.freeBytes).toBe(5);
    expect(ledger.resize('3', 1)).toBe(false);
    expect(() => ledger.resize('1', -1)).toThrow(RangeError);
  });
});
