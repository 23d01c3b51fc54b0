import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import type { OutOfMemory } from '../types.js';
import { Coordinator } from './coordinator.js';
import type { FromSdk, ToSdk } from './messages.js';
import type { Peer } from './party.js';
import { readMessage } from './read-message.js';

const ago = (seconds: number) => (seconds === 0 ? '' : ` ${seconds} s ago`);

/** A made-up SDK: what it says goes in, what it hears is kept. */
function talk(limitBytes = 8 * GiB) {
  const clock = createVirtualClock();
  const climbed: string[] = [];
  const raised: OutOfMemory[] = [];
  const coordinator = new Coordinator(clock, {
    limitBytes: () => limitBytes,
    onRung: (rung, why, secondsAgo) => climbed.push(`${rung}: ${why}${ago(secondsAgo)}`),
    onOutOfMemory: (outOfMemory) => raised.push(outOfMemory),
  });
  const join = (rank = 0, world = 1, hooks = ['microbatch']) => {
    const heard: ToSdk[] = [];
    const peer: Peer = { send: (message) => heard.push(message) };
    const say = (document: object) => {
      const message: FromSdk | undefined = readMessage(document);
      if (message === undefined) throw new Error('not understood');
      coordinator.take(peer, message);
    };
    say({ type: 'hello', version: 1, pid: 1, rank, world, torch: null, hooks, device: 'cpu' });
    return { heard, say, peer };
  };
  return { clock, coordinator, climbed, raised, join };
}

const oom = {
  type: 'oom',
  id: 'a-1',
  rank: 0,
  phase: 'backward',
  kind: 'cuda',
  message: 'x',
  askedBytes: GiB,
  microbatch: 32,
  batch: 64,
  peakBytes: 8 * GiB,
};

describe('one process', () => {
  it('hears a smaller microbatch for the question that it asked', () => {
    const { join, climbed } = talk();
    const { heard, say } = join();
    say(oom);
    expect(heard).toEqual([
      expect.objectContaining({
        type: 'decide',
        id: 'a-1',
        action: 'retry',
        microbatch: 16,
        rung: 'smaller-microbatch',
      }),
    ]);
    expect(climbed).toHaveLength(1);
  });

  it('goes by what was measured once sizes are known, and grows back after clean steps', () => {
    const { join, climbed } = talk();
    const { heard, say } = join();
    // 2 GiB, and 256 MiB a sample: 20 fit under 7.2 GiB.
    say({ type: 'step', number: 1, microbatch: 4, batch: 64, peakBytes: 3 * GiB });
    say({ type: 'step', number: 2, microbatch: 8, batch: 64, peakBytes: 4 * GiB });
    say(oom);
    expect(heard.at(-1)).toMatchObject({ type: 'decide', microbatch: 20 });
    say({ ...oom, id: 'a-2', microbatch: 20, peakBytes: 7 * GiB });
    expect(heard.at(-1)).toMatchObject({ type: 'decide', id: 'a-2', microbatch: 8 });
    say({ type: 'step', number: 3, microbatch: 8, batch: 64, peakBytes: 4 * GiB });
    expect(heard.filter(({ type }) => type === 'grow')).toEqual([]);
    // Below the size that failed two measured steps are enough; it is told once, not at each step.
    for (let number = 4; number < 9; number++) {
      say({ type: 'step', number, microbatch: 8, batch: 64, peakBytes: 4 * GiB });
    }
    expect(heard.filter(({ type }) => type === 'grow')).toEqual([
      expect.objectContaining({ microbatch: 16 }),
    ]);
    expect(climbed.filter((line) => line.startsWith('grow-back'))).toHaveLength(1);
  });

  it('hears a smaller microbatch before memory runs out, where what is held grows', () => {
    const { join, climbed } = talk();
    const { heard, say } = join();
    const reading = (step: number) => ({
      step,
      microbatch: 32,
      baseBytes: 2 * GiB + (step * GiB) / 4,
      peakBytes: 5 * GiB + (step * GiB) / 4,
    });
    const forecast = { type: 'forecast', id: 'f-1', who: 'step-0', microbatch: 32, batch: 64 };
    const readings = [1, 2, 3, 4].map(reading);
    say({ ...forecast, step: 5, baseBytes: 2 * GiB, limitBytes: 8 * GiB, readings });
    expect(heard.at(-1)).toMatchObject({ type: 'decide', id: 'f-1', microbatch: 32, rung: null });
    expect(climbed).toEqual([]);
    // 4.25 GiB in four steps, 3 for the samples: 0.05 more than the load line.
    say({ ...forecast, id: 'f-2', step: 5, baseBytes: 3.25 * GiB, limitBytes: 8 * GiB, readings });
    expect(heard.at(-1)).toMatchObject({
      type: 'decide',
      id: 'f-2',
      action: 'retry',
      microbatch: 31,
      rung: 'smaller-microbatch',
    });
    expect(climbed).toEqual([expect.stringContaining('before memory runs out')]);
  });

  it('keeps what buffer stores of all its processes did, also of those that left', () => {
    const { join, coordinator } = talk();
    expect(coordinator.buffers).toBeUndefined();
    const [one, other] = [join(), join()];
    const figures = { type: 'figures', at: 1, phase: 'idle' };
    const stores = { items: 2, hits: 6, misses: 2, evictions: 1, memoryBytes: 100, fileBytes: 50 };
    one.say({ ...figures, buffers: { ...stores, rawBytes: 300 } });
    one.say({ type: 'bye' });
    other.say({ ...figures, buffers: { ...stores, rawBytes: 'much' } });
    expect(coordinator.buffers).toEqual({
      ...stores,
      rawBytes: 300,
      hitRate: 0.75,
      compressionRatio: 2,
    });
    const empty = { items: 0, hits: 0, misses: 0, evictions: 0, memoryBytes: 0, fileBytes: 0 };
    other.say({ ...figures, buffers: { ...empty, rawBytes: 0 } });
    expect(coordinator.buffers).toMatchObject({ items: 2, hits: 6 });
  });

  it('does not take a forecast that says too little', () => {
    const bad = { type: 'forecast', id: 'f', who: 'x', step: 1, microbatch: 8 };
    expect(readMessage(bad)).toBeUndefined();
    expect(readMessage({ ...bad, baseBytes: -1 })).toBeUndefined();
    expect(readMessage({ ...bad, baseBytes: 5, readings: [7, null, {}], sizes: 'x' })).toEqual(
      expect.objectContaining({ readings: [], sizes: [], limitBytes: 'unknown', batch: 8 }),
    );
  });

  it('tries a size that failed once more, after many clean steps under a limit that it meets', () => {
    const { join } = talk();
    const { heard, say } = join();
    say({ ...oom, microbatch: 16 });
    say({ type: 'step', number: 1, microbatch: 8, batch: 16, peakBytes: GiB });
    say({ type: 'step', number: 19, microbatch: 8, batch: 16, peakBytes: GiB });
    expect(heard.filter(({ type }) => type === 'grow')).toEqual([]);
    say({ type: 'step', number: 20, microbatch: 8, batch: 16, peakBytes: GiB });
    expect(heard.at(-1)).toMatchObject({ type: 'grow', microbatch: 16 });
  });

  it('tries a size that fitted again once, not in each step', () => {
    const { join } = talk();
    const { heard, say } = join();
    const step = { type: 'step', microbatch: 32, batch: 64, peakBytes: 6 * GiB };
    const decided: number[] = [];
    for (let number = 1; number <= 3; number++) {
      say({ ...step, number });
      say({ ...oom, id: `a-${number}` });
      const answer = heard.at(-1);
      if (answer?.type === 'decide') decided.push(answer.microbatch);
      if (answer?.type === 'decide' && answer.microbatch < 32) break;
    }
    expect(decided).toHaveLength(2);
    expect(decided[0]).toBe(32);
    expect(decided[1]).toBeLessThan(32);
  });

  it('counts steps that were not told by their numbers', () => {
    const { join } = talk();
    const { heard, say } = join();
    say({ type: 'step', number: 1, microbatch: 4, batch: 64, peakBytes: GiB });
    say({ type: 'step', number: 40, microbatch: 4, batch: 64, peakBytes: GiB });
    expect(heard).toEqual([expect.objectContaining({ type: 'grow', microbatch: 8 })]);
  });

  it('raises what cannot be recovered, and tells the supervisor', () => {
    const { join, raised, coordinator } = talk();
    const { heard, say } = join(0, 1, []);
    say(oom);
    expect(heard.at(-1)).toMatchObject({ action: 'raise' });
    expect(raised).toEqual([expect.objectContaining({ kind: 'cuda', askedBytes: GiB })]);
    expect(coordinator.peakBytes).toBe(8 * GiB);
  });

  it('gives back the cache first where it is large enough', () => {
    const { join } = talk();
    const { heard, say } = join();
    say({
      type: 'figures',
      at: 1,
      allocatedBytes: 3 * GiB,
      reservedBytes: 6 * GiB,
      phase: 'forward',
    });
    say(oom);
    say({ ...oom, id: 'a-2' });
    expect(heard.map((message) => 'rung' in message && message.rung)).toEqual([
      'give-back-cache',
      'smaller-microbatch',
    ]);
  });

  it('may declare more later, and is not forgotten for it', () => {
    const { join, coordinator } = talk();
    const { heard, say } = join(0, 1, []);
    say({ type: 'step', number: 1, microbatch: 4, batch: 8, peakBytes: GiB });
    say({ type: 'hello', rank: 0, world: 1, hooks: ['microbatch'] });
    say(oom);
    expect(heard.at(-1)).toMatchObject({ action: 'retry' });
    expect(coordinator.peakBytes).toBe(8 * GiB);
  });
});

describe('a supervisor that came late', () => {
  const standing = {
    who: 'step-0',
    steps: 500,
    microbatch: 8,
    batch: 64,
    sizes: [
      { microbatch: 4, peakBytes: 3 * GiB },
      { microbatch: 8, peakBytes: 4 * GiB },
    ],
    smallestFailed: 32,
  };
  const late = { type: 'hello', rank: 0, world: 1, hooks: ['microbatch'], peakBytes: 6 * GiB };

  it('goes on from what the program did under another', () => {
    const { join, coordinator, climbed } = talk();
    const { heard, say } = join(0, 1, []);
    say({ ...late, works: [standing] });
    expect(coordinator.peakBytes).toBe(6 * GiB);
    // By the two sizes that it was told of: 20 fit under 7.2 GiB.
    say({ ...oom, who: 'step-0' });
    expect(heard.at(-1)).toMatchObject({ type: 'decide', microbatch: 20 });
    expect(climbed).toHaveLength(1);
  });

  it('counts the steps that were made before it came as progress, once', () => {
    const { coordinator, clock } = talk();
    const hello = readMessage({ ...late, works: [standing] });
    if (hello === undefined) throw new Error('not understood');
    coordinator.take({ send: () => {} }, hello);
    expect(coordinator.steps).toBe(500);
    expect(clock.seconds()).toBe(0);
  });

  it('does not try again what failed before it came', () => {
    const { join } = talk();
    const { heard, say } = join(0, 1, []);
    say({ ...late, works: [{ ...standing, smallestFailed: 12 }] });
    say({ type: 'step', who: 'step-0', number: 501, microbatch: 8, batch: 64, peakBytes: 4 * GiB });
    say({ type: 'step', who: 'step-0', number: 560, microbatch: 8, batch: 64, peakBytes: 4 * GiB });
    expect(heard).toEqual([
      { type: 'grow', who: 'step-0', microbatch: 10, why: expect.anything() },
    ]);
  });

  it('writes down the rungs that the program climbed alone, at their time', () => {
    const { join, climbed } = talk();
    const { say } = join();
    say({ type: 'climbed', rung: 'smaller-microbatch', why: 'alone', secondsAgo: 12 });
    expect(climbed).toEqual(['smaller-microbatch: alone 12 s ago']);
    const known = { type: 'climbed', why: 'x', secondsAgo: -1 };
    expect(readMessage({ ...known, rung: 'grow-back' })).toMatchObject({ secondsAgo: 0 });
    expect(readMessage({ ...known, rung: 'rm -rf' })).toBeUndefined();
  });
});

describe('several works in one process', () => {
  it('have their own sizes, and hear of their own growth', () => {
    const { join } = talk();
    const { heard, say } = join();
    say({ type: 'step', who: 'step-0', number: 1, microbatch: 4, batch: 64, peakBytes: GiB });
    say({
      type: 'step',
      who: 'encode-0',
      number: 1,
      microbatch: 99,
      batch: 99,
      peakBytes: 7 * GiB,
    });
    say({ type: 'step', who: 'step-0', number: 40, microbatch: 4, batch: 64, peakBytes: GiB });
    expect(heard).toEqual([
      expect.objectContaining({ type: 'grow', who: 'step-0', microbatch: 8 }),
    ]);
  });

  it('climb what they declare, and not what another does', () => {
    const { join, raised } = talk();
    const { heard, say } = join(0, 1, ['microbatch', 'checkpointing']);
    say({ ...oom, who: 'encode-0', microbatch: 1, hooks: ['microbatch'] });
    expect(heard.at(-1)).toMatchObject({ action: 'retry', rung: 'give-back-cache' });
    say({ ...oom, who: 'encode-0', microbatch: 1, hooks: ['microbatch'] });
    expect(heard.at(-1)).toMatchObject({ action: 'raise' });
    expect(raised).toHaveLength(2);
    say({ ...oom, who: 'step-0', microbatch: 1 });
    say({
      ...oom,
      id: 'a-2',
      who: 'step-0',
      microbatch: 1,
      hooks: ['microbatch', 'checkpointing'],
    });
    expect(heard.at(-1)).toMatchObject({ action: 'retry', rung: 'checkpointing' });
  });

  it('more than any program has are heard as one, and cost no more', () => {
    const { join } = talk();
    const { heard, say } = join();
    for (let i = 0; i < 1000; i++) say({ ...oom, id: i, who: `w-${i}`, microbatch: 8 });
    expect(heard).toHaveLength(1000);
  });

  it('an uncaught one is not a question: no rung, and the program ends with it', () => {
    const { join, raised, climbed } = talk();
    const { heard, say } = join();
    say({ ...oom, uncaught: true });
    expect(heard).toEqual([]);
    expect(climbed).toEqual([]);
    expect(raised).toEqual([expect.objectContaining({ kind: 'cuda' })]);
  });
});

describe('several ranks', () => {
  it("a loader's worker with its parent's rank is none, and its memory is not theirs", () => {
    const { join } = talk();
    const [one, other] = [join(0, 2), join(1, 2)];
    const worker = join(1, 2, []);
    worker.say({ type: 'figures', reservedBytes: 2 * GiB, allocatedBytes: 0, freeBytes: 1 });
    other.say({ ...oom, rank: 1, round: 1, askedBytes: GiB });
    // Not "give back the cache": it is the worker's. Nor a limit of 2 GiB.
    expect(one.heard.at(-1)).toMatchObject({ rung: 'smaller-microbatch', microbatch: 16 });
    expect(worker.heard).toEqual([]);
  });

  it('a function that one of them calls by itself is no round', () => {
    const { join } = talk();
    const [one, other] = [join(0, 2), join(1, 2)];
    one.say({ ...oom, who: 'encode-0@0', hooks: ['microbatch'] });
    expect(one.heard.at(-1)).toMatchObject({ type: 'decide', round: null, microbatch: 16 });
    expect(other.heard).toEqual([]);
  });

  it('all hear the same decision, and a verdict when all have spoken', () => {
    const { join } = talk();
    const ranks = [0, 1, 2].map((rank) => join(rank, 3));
    ranks.forEach(({ say }, rank) => say({ type: 'barrier', round: 1, rank, ok: true }));
    for (const { heard } of ranks)
      expect(heard).toEqual([expect.objectContaining({ type: 'verdict', round: 1, ok: true })]);
    ranks[1]?.say({ ...oom, rank: 1, round: 2 });
    for (const { heard } of ranks) {
      expect(heard.at(-1)).toMatchObject({
        type: 'decide',
        round: 2,
        action: 'retry',
        microbatch: 16,
      });
    }
    expect(
      ranks.map(
        ({ heard }) => 'id' in (heard.at(-1) ?? {}) && Reflect.get(heard.at(-1) ?? {}, 'id'),
      ),
    ).toEqual([null, 'a-1', null]);
    ranks.forEach(({ say }, rank) => say({ type: 'barrier', round: 2, rank, ok: rank !== 1 }));
    for (const { heard } of ranks) {
      expect(heard.at(-1)).toEqual({ type: 'verdict', round: 2, ok: false, microbatch: 16 });
    }
  });

  it('two that fail in one round are answered alike', () => {
    const { join, climbed } = talk();
    const [one, other] = [join(0, 2), join(1, 2)];
    one.say({ ...oom, round: 5 });
    other.say({ ...oom, id: 'b-1', rank: 1, round: 5, microbatch: 32 });
    const decisions = [...one.heard, ...other.heard].filter(({ type }) => type === 'decide');
    expect(new Set(decisions.map((message) => Reflect.get(message, 'microbatch')))).toEqual(
      new Set([16]),
    );
    expect(climbed).toHaveLength(1);
  });

  it('do not wait for one that hangs: two seconds after the first failure it is decided', async () => {
    const { join, clock } = talk();
    const [one, other] = [join(0, 2), join(1, 2)];
    one.say({ type: 'barrier', round: 7, rank: 0, ok: false });
    await clock.advance(1.9);
    expect(one.heard).toEqual([]);
    await clock.advance(0.2);
    expect(one.heard.at(-1)).toMatchObject({ type: 'verdict', round: 7, ok: false });
    expect(other.heard.at(-1)).toMatchObject({ type: 'verdict', round: 7, ok: false });
    other.say({ type: 'barrier', round: 7, rank: 1, ok: true });
    expect(other.heard.filter(({ type }) => type === 'verdict')).toHaveLength(2);
    expect(other.heard.at(-1)).toMatchObject({ ok: false });
  });

  it('leave in peace', () => {
    const { join, coordinator } = talk();
    const { say, peer } = join(0, 2);
    say({ type: 'bye' });
    coordinator.leave(peer);
    expect(() => say({ type: 'step', number: 1, microbatch: 1, batch: 1 })).not.toThrow();
  });
});
