import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { snapshotScripts } from 'plimsoll:snapshot-page';
import * as fc from 'fast-check';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderSnapshotHtml } from '../../src/report/snapshot-html.js';
import {
  AddressSpace,
  type PageLimits,
  packRecording,
  snapshotPageData,
  stackTitle,
  timePoints,
} from '../../src/report/snapshot-recording.js';
import { analyseSnapshot, type SnapshotAnalysis } from '../../src/snapshot/analyse.js';
import { holdersAt } from '../../src/snapshot/answer/holders.js';
import { layoutAt } from '../../src/snapshot/answer/out-of-memory.js';
import {
  frames,
  madeSnapshot,
  type RecordedName,
  recorded,
  recordedPath,
} from '../../src/snapshot/made-snapshot-for-tests.js';
import { readSnapshot } from '../../src/snapshot/read-snapshot.js';
import { MiB } from '../../src/units/bytes.js';
import { describeLife } from '../../web/snapshot/answer/describe.js';
import { flameBars, flameTree, holdingsAt } from '../../web/snapshot/answer/flame.js';
import { eventsBetween } from '../../web/snapshot/answer/near.js';
import { stateAt } from '../../web/snapshot/answer/state.js';
import { type ViewRequest, viewOf } from '../../web/snapshot/answer/view.js';
import { openRecording, type Recording } from '../../web/snapshot/data/recording.js';
import { TimeAxis } from '../../web/snapshot/data/time-axis.js';
import { unpack } from '../../web/snapshot/data/unpack.js';
import { audit, axeViolations } from './audit.js';
import { needsChromium, openPage, useChromium } from './chromium.js';

describe('the page of a snapshot', needsChromium, () => {
  const { browser } = useChromium();
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-page-'));
  const file = join(folder, 'leak.html');
  beforeAll(async () => {
    const analysis = analyseSnapshot(await readSnapshot(recordedPath('leak')), { whatIf: [] });
    const named = { name: 'leak.pickle', version: '1.2.3', scripts: snapshotScripts };
    writeFileSync(file, renderSnapshotHtml(analysis, named));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** As a person opens it: from a file. */
  async function open(viewport: { readonly width: number; readonly height: number }) {
    const watched = await openPage(browser(), pathToFileURL(file).href, { viewport });
    await watched.page.locator('#loading').waitFor({ state: 'detached' });
    await expect.poll(() => watched.page.textContent('#state-words')).toMatch(/At the snapshot/);
    await expect.poll(() => watched.page.textContent('#axis-words')).toMatch(/linear/);
    return watched;
  }
  const text = (page: Page, id: string) => page.textContent(`#${id}`);

  it('shows each allocation, its stack in view, and the allocator at that event', async () => {
    const { page, close } = await open({ width: 1280, height: 900 });
    expect(await text(page, 'stack-list')).toContain('GiB');
    const units = ['B', 'KiB', 'MiB', 'GiB'];
    const held = (await page.locator('#stack-list b').allTextContents()).map((words) => {
      const [figure, unit = ''] = words.split(/\s/);
      return Number(figure) * 1024 ** units.indexOf(unit);
    });
    expect(held.length).toBeGreaterThan(5);
    expect(held).toEqual(held.toSorted((one, other) => other - one));
    await page.click('[data-mode=allocations]');
    await expect.poll(() => text(page, 'band-words')).toMatch(/drawn together/);
    const box = page.locator('#time');
    const { width = 0, height = 0 } = (await box.boundingBox()) ?? {};
    // Near the bottom, where weights lie for the whole of the recording.
    await box.click({ position: { x: width * 0.7, y: height - 27 } });
    const stack = page.locator('#frames');
    await stack.waitFor();
    await expect.poll(() => stack.textContent()).toMatch(/address 0x.*snapshots\.py/);
    expect(await stack.textContent()).toMatch(/\d+ calls in torch/);
    const place = (await stack.boundingBox()) ?? { y: -1, height: 0 };
    expect(place.y).toBeGreaterThanOrEqual(0);
    expect(place.y + place.height).toBeLessThanOrEqual(900);
    await expect.poll(() => text(page, 'state-words')).toMatch(/After event [\d,]+ of/);
    expect(await text(page, 'near')).toMatch(/allocated|freed/);
    expect(await page.locator('#largest tr').count()).toBe(12);
    await page.click('[data-event=peak]');
    await expect.poll(() => text(page, 'state-words')).toMatch(/: 6\.23 GiB used/);
    await page.click('[data-flame=chosen]');
    await expect.poll(() => page.getAttribute('[data-flame=chosen]', 'aria-pressed')).toBe('true');
    await close();
  });

  it('works with the keyboard alone, and says which axis it has', { tags: 'rest' }, async () => {
    const { page, close } = await open({ width: 1280, height: 900 });
    await page.focus('#time');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'time-readout')).toMatch(/^At .*event/);
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => text(page, 'time-readout')).toMatch(/Here: \S/);
    await page.keyboard.press('Enter');
    await expect.poll(() => text(page, 'frames')).toMatch(/innermost call first/);
    await page.keyboard.press('t');
    await expect.poll(() => text(page, 'axis-words')).toMatch(/order of events, not time/);
    await page.keyboard.press('+');
    await expect.poll(() => text(page, 'range')).toMatch(/^events /);
    await page.keyboard.press('0');
    await expect.poll(() => text(page, 'range')).toBe('all of the recording');
    await page.keyboard.press('m');
    await expect.poll(() => text(page, 'band-words')).toMatch(/below 1\d\.\d MiB/);
    await page.keyboard.press(']');
    await expect.poll(() => text(page, 'band-words')).toMatch(/below \d\.\d MiB/);
    await page.focus('#segment-map');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'map-readout')).toMatch(/^0x.*block of/);
    await page.focus('#flame');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'flame-readout')).toMatch(/<module> \(.*98\.3 %/);
    await close();
  });

  it('is as wide as a phone, with names, order and contrast', { tags: 'rest' }, async () => {
    const { page, close } = await open({ width: 390, height: 844 });
    await page.locator('#stack-list button').first().click();
    await page.locator('#frames').waitFor();
    const found = await audit(page);
    expect(found.filter((line) => !line.startsWith('a style of its own'))).toEqual([]);
    expect(await axeViolations(page)).toEqual([]);
    await close();
  });
});

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

describe('times on a page', () => {
  it('are told to within a pixel by few points, both ways', () => {
    const steps = fc.array(fc.integer({ min: 0, max: 5000 }), { minLength: 2, maxLength: 300 });
    fc.assert(
      fc.property(steps, (gaps) => {
        let now = 0;
        const times = gaps.map((gap) => (now += gap / 1000));
        const { ticks, seconds } = timePoints(times.length, (tick) => times[tick] ?? 0);
        const axis = new TimeAxis(ticks, seconds);
        expect(axis.known).toBe(now > 0);
        if (!axis.known) return;
        times.forEach((time, tick) => {
          expect(Math.abs(axis.secondsAt(tick) - time)).toBeLessThanOrEqual(now / 19_000 + 1e-9);
        });
        expect(axis.tickAt(now)).toBe(times.length - 1);
      }),
    );
  });

  it('need two points for an even pace, and a few more for a pause', () => {
    expect(timePoints(1000, (tick) => tick / 10).ticks).toEqual(Uint32Array.of(0, 999));
    const paused = timePoints(1000, (tick) => tick / 10 + (tick > 500 ? 60 : 0));
    expect(paused.ticks).toEqual(Uint32Array.of(0, 500, 501, 999));
  });

  it('are unknown where the recording has none', () => {
    expect(timePoints(1000, () => 0).ticks).toHaveLength(0);
  });
});

describe('places of addresses', () => {
  const space = new AddressSpace([
    { offset: 2 ** 40, bytes: 4096 },
    { offset: 0, bytes: 1024 },
    { offset: 1024, bytes: 512 },
  ]);

  it('lie close together, with a gap between regions that do not touch', () => {
    expect(space.regions.map(({ place }) => place)).toEqual([0, 4]);
    expect([0, 1024, 1535, 2 ** 40, 2 ** 40 + 512].map((at) => space.placeOf(at))).toEqual([
      0, 2, 2, 4, 5,
    ]);
  });

  it('are undefined where nothing was ever held', () => {
    expect([1536, 2 ** 40 - 1, 2 ** 40 + 4096, -1].map((at) => space.placeOf(at))).toEqual(
      Array.from({ length: 4 }),
    );
  });
});

describe('a stack in a few words', () => {
  const linear = { name: 'linear', file: '/v/site-packages/torch/nn/functional.py', line: 125 };
  const call = { name: '_call_impl', file: '/v/site-packages/torch/nn/modules/module.py', line: 9 };
  const mlp = { name: 'forward', file: '/v/site-packages/transformers/gpt2.py', line: 7 };
  const step = { name: 'step', file: '/srv/train.py', line: 58 };

  it('begins with the function, and ends with the own line', () => {
    expect(stackTitle([linear, call, mlp, call, step])).toBe(
      'linear, forward (transformers/gpt2.py:7), step (srv/train.py:58)',
    );
    expect(stackTitle([linear, step])).toBe('linear, step (srv/train.py:58)');
    expect(stackTitle([step])).toBe('step (srv/train.py:58)');
    expect(stackTitle([])).toBe('no frames recorded');
  });
});
