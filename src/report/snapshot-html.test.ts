import { Script } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { analyseSnapshot } from '../snapshot/analyse.js';
import { frames, madeSnapshot } from '../snapshot/made-snapshot-for-tests.js';
import { recorded } from '../snapshot/recorded-for-tests.js';
import { renderSnapshotHtml } from './snapshot-html.js';
import { snapshotPageData } from './snapshot-page-data.js';

const named = { name: 'job.pickle', version: '1.2.3' };

function column(text: string, bytes: 2 | 4): number[] {
  const raw = Buffer.from(text, 'base64');
  return Array.from({ length: raw.length / bytes }, (_, at) => raw.readUIntLE(at * bytes, bytes));
}

describe('the page of a snapshot', () => {
  it('stands alone and runs nothing foreign', async () => {
    const page = renderSnapshotHtml(analyseSnapshot(await recorded('oom')), named);
    expect(page).not.toMatch(/(?:src|href)="(?!#)/);
    expect(page).toContain('default-src &#39;none&#39;');
    const scripts = [...page.matchAll(/<script>(.*?)<\/script>/gs)].map((match) => match[1] ?? '');
    expect(scripts).toHaveLength(1);
    // Throws where it is no program.
    expect(() => new Script(scripts[0] ?? '')).not.toThrow();
  });

  it('has the findings as text, with where they come from', async () => {
    const page = renderSnapshotHtml(analyseSnapshot(await recorded('leak')), named);
    expect(page).toContain('never freed');
    expect(page).toContain('<span class="tag simulated">simulated</span>');
    expect(page).toContain('job.pickle, device 0');
  });

  it('keeps names of the file from becoming part of the page', () => {
    const stack = frames('</script><img src=x>.py:1 <b>');
    const event = { action: 'alloc', addr: 512, size: 512, stack };
    const snapshot = madeSnapshot(
      [{ address: 512, blocks: [{ size: 512, stack }] }],
      [event, { ...event, addr: 1024 }],
    );
    const page = renderSnapshotHtml(analyseSnapshot(snapshot), { ...named, name: '<i>' });
    expect(page).not.toContain('<img');
    expect(page).not.toContain('<i>.');
    expect(page.match(/<\/script>/g)).toHaveLength(2);
  });
});

describe('the data of the page', () => {
  it('add up to what was allocated, at the peak and at the end', async () => {
    const analysis = analyseSnapshot(await recorded('leak'));
    const { lives, marks, ticks } = snapshotPageData(analysis);
    const [from, to, size] = [column(lives.from, 4), column(lives.to, 4), column(lives.size, 4)];
    const allocatedAt = (tick: number) =>
      size.reduce((sum, units, life) => {
        const alive = (from[life] ?? 0) <= tick && (to[life] ?? 0) > tick;
        return alive ? sum + units * 512 : sum;
      }, 0);
    expect(lives.omitted).toBe(0);
    expect(allocatedAt(marks.peak)).toBe(analysis.history.peakAllocated.allocatedBytes);
    expect(allocatedAt(ticks - 1)).toBe(analysis.figures.allocatedBytes);
  });

  it('have the exact peaks however many events there are', async () => {
    const analysis = analyseSnapshot(await recorded('steady'));
    const { allocated, reserved } = snapshotPageData(analysis);
    expect(Math.max(...allocated)).toBe(analysis.history.peakAllocated.allocatedBytes);
    expect(Math.max(...reserved)).toBe(analysis.history.peakReserved.reservedBytes);
  });

  it('draw a flame whose parts are as wide as what they hold', async () => {
    const analysis = analyseSnapshot(await recorded('leak'));
    const { flame, frames: texts } = snapshotPageData(analysis);
    expect(flame.now.bytes).toBe(analysis.figures.allocatedBytes);
    const [outermost] = flame.now.children;
    expect(texts[outermost?.frame ?? -1]).toBe('truth/snapshots.py:58 in <module>');
    for (const { bytes, children } of [flame.now, ...flame.now.children]) {
      const inner = children.reduce((sum, child) => sum + child.bytes, 0);
      expect(inner).toBeLessThanOrEqual(bytes);
    }
  });

  it('name every stack that they use', async () => {
    const {
      lives,
      stacks,
      frames: texts,
      segments,
    } = snapshotPageData(analyseSnapshot(await recorded('oom')));
    const used = new Set(column(lives.stack, 2));
    for (const { blocks } of segments) {
      for (const [at, value] of blocks.entries()) if (at % 2 === 1 && value >= 0) used.add(value);
    }
    for (const stack of used) {
      for (const frame of stacks[stack] ?? [-1]) expect(texts[frame]).toBeTypeOf('string');
    }
  });
});
