import { describe, expect, it } from 'vitest';
import { analyseSnapshot } from './analyse.js';
import { compareHolders, holdersAt } from './answer/holders.js';
import { againstDocument, snapshotDocument } from './document.js';
import {
  frames,
  type MadeEvent,
  madeSnapshot,
  recorded,
  recordedNames,
  recordedTruth,
} from './made-snapshot-for-tests.js';

const MiB = 1024 ** 2;
const base = 0x7f0000000000;

describe.each(recordedNames)('the figures of %s', (name) => {
  it('are those of the process, to the byte', async () => {
    const document = snapshotDocument(analyseSnapshot(await recorded(name)), { top: 5 });
    const { outOfMemory, ...truth } = recordedTruth[name];
    expect(document).toMatchObject({ ...truth, activeBytes: truth.allocatedBytes });
    expect(document.outOfMemory).toHaveLength(outOfMemory);
  });

  it('are met by the simulated allocator under the recorded settings', async () => {
    const { whatIfs } = analyseSnapshot(await recorded(name));
    expect(whatIfs?.asRecorded.peakReservedBytes).toBe(recordedTruth[name].reservedBytes);
  });
});

describe('leaks', () => {
  it('finds the 24 tensors of the leak with their two stacks, and what hangs on them', async () => {
    const snapshot = await recorded('leak');
    const { leaks, minor } = analyseSnapshot(snapshot).leaks;
    const found = leaks.map(({ stack, count, steps, bytes }) => {
      const [frame] = snapshot.names.stack(stack);
      return [frame?.file.split('/').at(-1), frame?.line, count, steps, bytes];
    });
    expect(found).toEqual([
      ['linear.py', 134, 12, 12, 154392576],
      ['snapshots.py', 22, 12, 12, 301989888],
    ]);
    expect(leaks[0]?.heldWith).toMatchObject({ count: 1512, stacks: 15 });
    expect(leaks[1]?.heldWith.count).toBe(0);
    expect(minor.count).toBe(12);
  });

  it('finds the same without the notes of the optimizer', async () => {
    const snapshot = { ...(await recorded('leak')), annotations: [] };
    const { leaks, steps } = analyseSnapshot(snapshot).leaks;
    expect(steps.basis).toBe('a repeating allocation');
    expect(leaks.map(({ count }) => count)).toEqual([12, 12]);
  });

  it('claims none where the memory only rose once', async () => {
    for (const name of ['steady', 'oom'] as const) {
      expect(analyseSnapshot(await recorded(name)).leaks.leaks).toEqual([]);
    }
  });

  it('does not take the layers of one forward pass for steps that leak', async () => {
    const { leaks, steps } = analyseSnapshot(await recorded('first-forward')).leaks;
    expect({ leaks, basis: steps.basis }).toEqual({ leaks: [], basis: 'none' });
  });

  describe('of a loop that calls a model on one line', () => {
    const module = '/venv/lib/python3.12/site-packages/torch/nn/modules/module.py';
    const outer = [`${module}:1787 _call_impl`, '/app/train.py:20 <module>'];
    const inner = [`${module}:1787 _call_impl`, '/app/model.py:8 forward', ...outer];

    /** Twelve times a temporary and something that stays, under the frames that are given. */
    function repeated(temporary: readonly string[], kept: readonly string[]): MadeEvent[] {
      return Array.from({ length: 12 }, (_, at) => [
        { action: 'alloc', addr: base, size: MiB, stack: frames(...temporary) },
        { action: 'alloc', addr: base + (at + 1) * 4 * MiB, size: MiB, stack: frames(...kept) },
        { action: 'free_requested', addr: base, size: MiB },
        { action: 'free_completed', addr: base, size: MiB },
      ]).flat();
    }
    const leaksOf = (events: readonly MadeEvent[]) =>
      analyseSnapshot(madeSnapshot([], events)).leaks.leaks.map(({ count }) => count);

    it('finds what it keeps', () => {
      const body = ['/app/model.py:7 forward', ...outer];
      expect(leaksOf(repeated(body, ['/app/model.py:9 forward', ...outer]))).toEqual([12]);
    });

    it('finds what it keeps where the model stands inside of a wrapper', () => {
      const wrapper =
        '/venv/lib/python3.12/site-packages/torch/nn/parallel/distributed.py:1700 forward';
      const wrapped = [`${module}:1787 _call_impl`, wrapper, ...outer];
      const body = ['/app/model.py:7 forward', ...wrapped];
      expect(leaksOf(repeated(body, ['/app/model.py:9 forward', ...wrapped]))).toEqual([12]);
    });

    it('claims nothing where the layers of the model are what repeats', () => {
      const body = ['/app/layer.py:3 forward', ...inner];
      expect(leaksOf(repeated(body, ['/app/layer.py:4 forward', ...inner]))).toEqual([]);
    });

    it('claims nothing while a model is loaded', () => {
      const loader = '/venv/lib/python3.12/site-packages/transformers/modeling_utils.py';
      const load = [`${loader}:4000 from_pretrained`, '/app/train.py:5 <module>'];
      const events = repeated([`${loader}:70 cast`, ...load], [`${loader}:71 cast`, ...load]);
      expect(leaksOf(events)).toEqual([]);
    });
  });

  /** A loop of `steps` steps with a temporary, and one tensor of `keep` kept for so many steps. */
  function loop(steps: number, keptSteps: number): MadeEvent[] {
    const temporary = frames('/app/train.py:10 step');
    const kept = frames('/app/train.py:11 step');
    const events: MadeEvent[] = [];
    const addressOf = (step: number) => base + (step + 1) * 4 * MiB;
    for (let step = 0; step < steps; step += 1) {
      events.push({ action: 'alloc', addr: base, size: MiB, stack: temporary });
      events.push({ action: 'alloc', addr: addressOf(step), size: MiB, stack: kept });
      for (const addr of [base, addressOf(step - keptSteps)]) {
        if (addr < base) continue;
        if (addr !== base && step < keptSteps) continue;
        events.push({ action: 'free_requested', addr, size: MiB });
        events.push({ action: 'free_completed', addr, size: MiB });
      }
    }
    return events;
  }

  it('tells a leak from a cache that turns over', () => {
    const found = (kept: number) =>
      analyseSnapshot(madeSnapshot([], loop(20, kept))).leaks.leaks.map(({ count }) => count);
    expect(found(100)).toEqual([20]);
    expect(found(10)).toEqual([]);
  });

  it('says how fast a leak grows', () => {
    const [leak] = analyseSnapshot(madeSnapshot([], loop(20, 100))).leaks.leaks;
    expect(leak).toMatchObject({ bytesPerStep: MiB, bytes: 20 * MiB });
    // One step has 4 events, 1 ms apart.
    expect(leak?.bytesPerSecond).toBe(MiB * 250);
  });
});

describe('out of memory', () => {
  it('explains the recorded one: a limit of 4 GiB, and who held the most', async () => {
    const snapshot = await recorded('oom');
    const [event] = analyseSnapshot(snapshot).outOfMemory;
    expect(event).toMatchObject({
      askedBytes: 100663296,
      deviceFreeBytes: 145109417984,
      allocatedBytes: 4224743424,
      cause: 'limit',
      largestFreeBytes: 8 * MiB,
    });
    const free = (event?.freeBytes ?? 0) + (event?.elsewhereBytes ?? 0);
    expect(free).toBe(4280287232 - 4224743424);
    const [most] = event?.holders ?? [];
    expect(snapshot.names.stack(most?.stack ?? -1)[0]?.file).toContain('activations.py');
    expect(most).toMatchObject({ bytes: 1811939328, count: 18 });
  });

  const pieces = [0, 1, 2, 3].flatMap((at) => [
    { action: 'segment_alloc', addr: base + at * 20 * MiB, size: 20 * MiB },
    { action: 'alloc', addr: base + at * 20 * MiB, size: 10 * MiB },
  ]);
  const segments = [0, 1, 2, 3].map((at) => ({
    address: base + at * 20 * MiB,
    blocks: [{ size: 10 * MiB }, { size: 10 * MiB, state: 'inactive' }],
  }));

  it.each([
    ['fragmentation', 30 * MiB, 0],
    ['limit', 60 * MiB, 100 * MiB],
    ['full', 60 * MiB, 50 * MiB],
  ])('knows %s', (cause, size, free) => {
    const snapshot = madeSnapshot(segments, [...pieces, { action: 'oom', size, free }]);
    const [event] = analyseSnapshot(snapshot).outOfMemory;
    expect(event).toMatchObject({ cause, freeBytes: 40 * MiB, largestFreeBytes: 10 * MiB });
  });

  it('finds the setting under which the request would have been served', () => {
    const places = [0, 1, 2, 3].map((at) => base + at * 40 * MiB);
    const each = (action: string, size: number) => places.map((addr) => ({ action, addr, size }));
    const snapshot = madeSnapshot(
      places.map((address) => ({
        address,
        blocks: [{ size: 25 * MiB }, { size: 15 * MiB, state: 'inactive' }],
      })),
      [
        ...each('segment_alloc', 40 * MiB),
        ...each('alloc', 40 * MiB),
        ...each('free_requested', 40 * MiB),
        ...each('free_completed', 40 * MiB),
        // Each cuts a piece off, and leaves one that is too small to use.
        ...each('alloc', 25 * MiB),
        { action: 'oom', size: 40 * MiB, free: 0 },
      ],
    );
    const { whatIfs, outOfMemory } = analyseSnapshot(snapshot, {
      whatIf: ['expandable_segments:True'],
    });
    expect(outOfMemory).toMatchObject([{ cause: 'fragmentation', freeBytes: 60 * MiB }]);
    expect(whatIfs?.asRecorded.servesOutOfMemory).toBe(false);
    expect(whatIfs?.others).toMatchObject([
      { conf: 'expandable_segments:True', servesOutOfMemory: true },
    ]);
  });
});

describe('fragmentation', () => {
  const segment = (size: number, used: number) => ({
    address: base + size * 1000,
    blocks: [{ size: used }, { size: size - used, state: 'inactive' }].filter((b) => b.size > 0),
  });
  const asks = { action: 'alloc', addr: base, size: 8 * MiB };

  it('counts what is too small for the largest recent request and cannot be given back', () => {
    const { fragmentation } = analyseSnapshot(
      madeSnapshot([segment(20 * MiB, 14 * MiB), segment(40 * MiB, 10 * MiB)], [asks]),
    );
    // 6 MiB do not serve 8 MiB; 30 MiB would.
    expect(fragmentation).toMatchObject({ stuckBytes: 6 * MiB, share: 6 / 60, releasableBytes: 0 });
  });

  it('counts segments that are wholly free as what can be given back', () => {
    const { fragmentation } = analyseSnapshot(madeSnapshot([segment(6 * MiB, 0)], [asks]));
    expect(fragmentation).toMatchObject({ stuckBytes: 0, releasableBytes: 6 * MiB });
  });

  it('keeps pools and streams apart', () => {
    const { fragmentation } = analyseSnapshot(
      madeSnapshot(
        [segment(20 * MiB, 14 * MiB), { ...segment(22 * MiB, 11 * MiB), stream: 7, pool: 3 }],
        [asks],
      ),
    );
    expect(fragmentation.pools.map(({ pool, stream }) => [pool, stream])).toEqual([
      ['0,3', '7'],
      ['0,0', '0'],
    ]);
  });
});

describe('holders', () => {
  it('sum up to what is allocated, now and at any instant', async () => {
    const { history, holders, peakHolders, figures } = analyseSnapshot(await recorded('leak'));
    const total = (all: readonly { bytes: number }[]) =>
      all.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(total(holders)).toBe(figures.allocatedBytes);
    expect(total(peakHolders)).toBe(history.peakAllocated.allocatedBytes);
    expect(total(holdersAt(history.lives, -1))).toBe(0);
  });

  it('are compared by their frames', async () => {
    const [leak, steady] = [
      analyseSnapshot(await recorded('leak')),
      analyseSnapshot(await recorded('steady')),
    ];
    const sides = [leak, steady].map(({ holders, snapshot }) => ({
      holders,
      names: snapshot.names,
    }));
    const [a, b] = sides;
    if (!a || !b) throw new Error('two sides');
    expect(compareHolders(a, a)).toEqual([]);
    const [most] = compareHolders(a, b);
    expect(most).toMatchObject({ bytes: 301989888, againstBytes: 0, againstCount: 0, count: 12 });
    expect(againstDocument(leak, steady, { top: 3 })).toMatchObject({
      allocatedBytes: 1955568128 - 1580356096,
      stacks: [{ count: 12 }, {}, {}],
    });
  });
});

describe('what if', () => {
  it('tells what expandable segments would have reserved', async () => {
    const { whatIfs } = analyseSnapshot(await recorded('steady'), {
      whatIf: ['expandable_segments:True'],
    });
    const [expandable] = whatIfs?.others ?? [];
    expect(expandable?.peakReservedBytes).toBeLessThan(recordedTruth.steady.reservedBytes);
    expect(expandable?.peakReservedBytes).toBeGreaterThanOrEqual(
      recordedTruth.steady.peakAllocatedBytes,
    );
  });

  it('refuses settings that PyTorch would refuse', async () => {
    const snapshot = await recorded('oom');
    expect(() => analyseSnapshot(snapshot, { whatIf: ['no_such:1'] })).toThrow(
      "is not an option of PyTorch's allocator",
    );
  });
});

describe('choosing a device', () => {
  it('says which there are', async () => {
    const snapshot = await recorded('oom');
    expect(() => analyseSnapshot(snapshot, { device: 3 })).toThrow('it has 0');
  });

  it('says when there is nothing at all', () => {
    expect(() => analyseSnapshot(madeSnapshot([], []))).toThrow(
      expect.objectContaining({ code: 'empty-snapshot' }),
    );
  });
});
