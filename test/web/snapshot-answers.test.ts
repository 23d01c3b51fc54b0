import { describe, expect, it } from 'vitest';
import {
  type PageLimits,
  packRecording,
  snapshotPageData,
} from '../../src/report/snapshot-recording.js';
import { analyseSnapshot, type SnapshotAnalysis } from '../../src/snapshot/analyse.js';
import { holdersAt } from '../../src/snapshot/answer/holders.js';
import { layoutAt } from '../../src/snapshot/answer/out-of-memory.js';
import {
  frames,
  madeSnapshot,
  type RecordedName,
  recorded,
} from '../../src/snapshot/made-snapshot-for-tests.js';
import { MiB } from '../../src/units/bytes.js';
import { describeLife } from '../../web/snapshot/answer/describe.js';
import { flameBars, flameTree, holdingsAt } from '../../web/snapshot/answer/flame.js';
import { eventsBetween } from '../../web/snapshot/answer/near.js';
import { stateAt } from '../../web/snapshot/answer/state.js';
import { type ViewRequest, viewOf } from '../../web/snapshot/answer/view.js';
import { openRecording, type Recording } from '../../web/snapshot/data/recording.js';
import { unpack } from '../../web/snapshot/data/unpack.js';

interface Both {
  readonly analysis: SnapshotAnalysis;
  readonly recording: Recording;
}

/** The recording as a browser gets it, beside what it was made from. */
async function opened(analysis: SnapshotAnalysis, limits?: PageLimits): Promise<Both> {
  const { header, columns } = snapshotPageData(analysis, limits);
  return { analysis, recording: openRecording(await unpack(packRecording(header, columns))) };
}

async function openedFile(name: RecordedName): Promise<Both> {
  return opened(analyseSnapshot(await recorded(name), { whatIf: [] }));
}

const base = 0x7f0000000000;
const whole = { mode: 'stacks', width: 300, height: 200, vertical: undefined } as const;

function wholeView({ header, time }: Recording, axis: ViewRequest['axis']): ViewRequest {
  return { ...whole, axis, from: 0, to: axis === 'time' ? time.lastSeconds : header.ticks };
}

describe.each(['leak', 'oom'] as const)('the page of %s', (name) => {
  it('has the state of the allocator at the snapshot, block by block', async () => {
    const { analysis, recording } = await openedFile(name);
    const state = stateAt(recording, recording.header.ticks - 1);
    const { figures, device } = analysis;
    expect(state).toMatchObject({
      usedBytes: figures.allocatedBytes,
      reservedBytes: figures.reservedBytes,
      cachedBytes: figures.reservedBytes - figures.allocatedBytes,
      segmentCount: device.segments.length,
    });
    const shape = (address: string, used: number, blocks: number) => `${address} ${used} ${blocks}`;
    const inUse = device.segments.map(({ address, activeBytes, blocks }) =>
      shape(
        `0x${analysis.snapshot.names.address(address).toString(16)}`,
        activeBytes,
        blocks.filter(({ state: is }) => is !== 'inactive').length,
      ),
    );
    const found = state.segments.map((one) =>
      shape(one.address, one.usedBytes, one.blocks.length / 5),
    );
    expect(found.toSorted()).toEqual(inUse.toSorted());
  });

  it('has it at any other event, too', async () => {
    const { analysis, recording } = await openedFile(name);
    const { device, history, snapshot } = analysis;
    for (const event of [0, 100, 333, history.peakAllocated.index]) {
      const state = stateAt(recording, event + 1);
      const layout = layoutAt(device, history.lives, snapshot.names, event);
      const gaps = layout.flatMap((stretch) => stretch.gaps);
      expect(state.usedBytes).toBe(layout.reduce((sum, { usedBytes }) => sum + usedBytes, 0));
      expect(state.reservedBytes).toBe(layout.reduce((sum, { bytes }) => sum + bytes, 0));
      expect(state.largestFreeBytes).toBe(gaps.reduce((most, gap) => Math.max(most, gap), 0));
      const held = holdersAt(history.lives, event).map(({ bytes }) => bytes);
      const onPage = holdingsAt(recording, event + 1).map(([, bytes]) => bytes);
      expect(onPage.toSorted((a, b) => b - a)).toEqual(held);
    }
  });

  it.each(['time', 'events'] as const)('loses no peak on an axis of %s', async (axis) => {
    const { analysis, recording } = await openedFile(name);
    const { allocated, reserved } = viewOf(recording, wholeView(recording, axis));
    expect(Math.max(...allocated)).toBe(analysis.history.peakAllocated.allocatedBytes);
    expect(Math.max(...reserved)).toBe(analysis.history.peakReserved.reservedBytes);
  });
});

describe('the picture of memory over time', () => {
  const steady = frames('/srv/weights.py:1 load');
  const brief = frames('/srv/step.py:2 step');
  const events = [
    { action: 'segment_alloc', addr: base, size: 20 * MiB },
    { action: 'alloc', addr: base + 8 * MiB, size: 8 * MiB, stack: brief },
    { action: 'alloc', addr: base, size: 4 * MiB, stack: steady },
    { action: 'free_requested', addr: base + 8 * MiB, size: 8 * MiB },
    { action: 'alloc', addr: base + 16 * MiB, size: 2 * MiB, stack: brief },
    { action: 'free_completed', addr: base + 8 * MiB, size: 8 * MiB },
    { action: 'free_requested', addr: base + 16 * MiB, size: 2 * MiB },
    { action: 'free_completed', addr: base + 16 * MiB, size: 2 * MiB },
  ];
  const blocks = [
    { size: 4 * MiB, stack: steady },
    { size: 16 * MiB, state: 'inactive' },
  ];
  const made = () =>
    opened(analyseSnapshot(madeSnapshot([{ address: base, blocks }], events), { whatIf: [] }));
  /** What lies in a column, from the bottom up. */
  const bandsIn = async (mode: ViewRequest['mode'], tick: number, vertical?: [number, number]) => {
    const { recording } = await made();
    const view = viewOf(recording, {
      axis: 'events',
      mode,
      from: 0,
      to: 9,
      width: 9,
      height: 100,
      vertical: vertical && { low: vertical[0] * MiB, high: vertical[1] * MiB },
    });
    const ids = Array.from({ length: 100 }, (_, row) => view.ids[(99 - row) * 9 + tick] ?? -1);
    const named = ids
      .filter((id) => id >= 0)
      .map((id) => (mode === 'stacks' ? id : describeLife(recording, id).stack));
    return named
      .filter((stack, at) => stack !== named[at - 1])
      .map((stack) => recording.header.titles[stack]);
  };

  it('has what is steady at the bottom, by stack and by allocation', async () => {
    const both = ['load (srv/weights.py:1)', 'step (srv/step.py:2)'];
    expect(await bandsIn('stacks', 3)).toEqual(both);
    expect(await bandsIn('allocations', 3)).toEqual(both);
    expect(await bandsIn('allocations', 8)).toEqual(both.slice(0, 1));
  });

  it('shows a part of the height alone', async () => {
    expect(await bandsIn('allocations', 3, [0, 4])).toEqual(['load (srv/weights.py:1)']);
    expect(await bandsIn('allocations', 3, [4, 12])).toEqual(['step (srv/step.py:2)']);
  });

  it('says what happened at each event, and what a stream still uses', async () => {
    const { recording } = await made();
    const kinds = eventsBetween(recording, 1, 8).map(({ tick, kind }) => [tick, kind]);
    expect(kinds).toEqual([
      [1, 'segment'],
      [2, 'allocated'],
      [3, 'allocated'],
      [4, 'freed'],
      [5, 'allocated'],
      [6, 'returned'],
      [7, 'freed'],
      [8, 'completed'],
    ]);
    expect(stateAt(recording, 5)).toMatchObject({
      usedBytes: 6 * MiB,
      pendingBytes: 8 * MiB,
      cachedBytes: 6 * MiB,
    });
  });

  it('tells each allocation from its birth to its end', async () => {
    const { recording } = await made();
    expect(describeLife(recording, 0)).toMatchObject({
      bytes: 8 * MiB,
      address: `0x${(base + 8 * MiB).toString(16)}`,
      born: 2,
      freed: 4,
    });
    expect(describeLife(recording, 1)).toMatchObject({ born: 3, freed: undefined });
  });
});

describe('a recording with more than a page can hold', () => {
  it('leaves out the smallest, says how many, and keeps the exact level', async () => {
    const analysis = analyseSnapshot(await recorded('leak'), { whatIf: [] });
    const { recording } = await opened(analysis, { ticks: 1000, lives: 500 });
    expect(recording.count).toBeLessThanOrEqual(500);
    expect(recording.header.omitted).toBe(analysis.history.lives.length - recording.count);
    expect(recording.header.ticks).toBeLessThanOrEqual(1001);
    const view = viewOf(recording, wholeView(recording, 'events'));
    expect(Math.max(...view.exact)).toBe(analysis.history.peakAllocated.allocatedBytes);
  });
});

describe('the flame graph', () => {
  it('is as wide as what its calls hold, and folds the frames of libraries', async () => {
    const { analysis, recording } = await openedFile('leak');
    const { header } = recording;
    const holdings = holdingsAt(recording, header.ticks - 1);
    const all = flameTree(holdings, header, false);
    const folded = flameTree(holdings, header, true);
    expect([all.bytes, folded.bytes]).toEqual(
      Array.from({ length: 2 }, () => analysis.figures.allocatedBytes),
    );
    const bars = flameBars(folded, [], header.frames);
    expect(bars[1]).toMatchObject({ label: '<module>', place: 'truth/snapshots.py:58', own: true });
    expect(bars.length).toBeLessThan(flameBars(all, [], header.frames).length);
    const deep = flameBars(all, [0, 0], header.frames);
    expect(deep.slice(0, 3).map(({ width }) => width)).toEqual([1, 1, 1]);
  });
});

describe('a snapshot without a recording', () => {
  it('has its state alone', async () => {
    const snapshot = madeSnapshot([{ address: base, blocks: [{ size: 2 * MiB }] }], []);
    const { recording } = await opened(analyseSnapshot(snapshot));
    expect(stateAt(recording, 0)).toMatchObject({ usedBytes: 2 * MiB, cachedBytes: 0, count: 1 });
  });
});
