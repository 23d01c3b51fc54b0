import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { GiB, MiB } from '../../units/bytes.js';
import { type ProcessFiles, ProcessList } from './process-list.js';

/** Processes made up, and what was read of them. */
function machine(sizes: Record<number, number>, { secondsPerRead = 0 } = {}) {
  const clock = createVirtualClock();
  const read: string[] = [];
  let pending = Promise.resolve();
  const spend = () => {
    pending = clock.advance(secondsPerRead);
  };
  const files: ProcessFiles = {
    listPids() {
      read.push('list');
      return Object.keys(sizes).map(Number);
    },
    residentBytes(pid) {
      read.push(`rss ${pid}`);
      return sizes[pid] ?? 0;
    },
    async proportionalBytes(pid) {
      read.push(`pss ${pid}`);
      spend();
      await pending;
      return (sizes[pid] ?? 0) / 2;
    },
    name(pid) {
      read.push(`name ${pid}`);
      return `program ${pid}`;
    },
  };
  const list = new ProcessList(files, clock);
  /** Lists the files that one more call reads. */
  async function reads(): Promise<string[]> {
    read.length = 0;
    await list.read();
    return [...read];
  }
  return { clock, list, reads, sizes };
}

const many = (count: number): Record<number, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, pid) => [pid + 1, (pid + 1) * MiB]));

describe('ProcessList', () => {
  it('reads all at first, and the largest exactly', async () => {
    const { list, reads } = machine({ 1: 10 * MiB, 2: 3 * GiB, 3: 9 * GiB });
    const first = await reads();
    expect(first.filter((one) => one.startsWith('rss'))).toHaveLength(3);
    // Beyond 8 GiB the walk over the pages would take too long.
    expect(first.filter((one) => one.startsWith('pss'))).toEqual(['pss 2', 'pss 1']);
    expect(await list.read()).toEqual([
      { pid: 3, name: 'program 3', usedBytes: 9 * GiB },
      { pid: 2, name: 'program 2', usedBytes: 1.5 * GiB },
      { pid: 1, name: 'program 1', usedBytes: 5 * MiB },
    ]);
  });

  it('reads only the largest in between, however many there are, and all after 10 s', async () => {
    const { clock, reads } = machine(many(500));
    await reads();
    await clock.advance(1);
    const next = await reads();
    expect(next.filter((one) => one.startsWith('rss'))).toHaveLength(16);
    expect(next.filter((one) => one.startsWith('name'))).toEqual([]);
    expect(next).toContain('rss 500');
    await clock.advance(9);
    expect((await reads()).filter((one) => one.startsWith('rss'))).toHaveLength(500);
  });

  it('follows a small one that grew since the last scan', async () => {
    const { clock, reads, sizes } = machine(many(500));
    await reads();
    sizes[3] = 40 * MiB;
    await clock.advance(10);
    await reads();
    await clock.advance(1);
    expect(await reads()).toContain('rss 3');
  });

  it('sees one that starts at the next call, and drops one that ended', async () => {
    const { clock, list, sizes } = machine({ 1: GiB, 2: 2 * GiB });
    await list.read();
    sizes[9] = 4 * GiB;
    delete sizes[1];
    await clock.advance(1);
    expect(await list.read()).toMatchObject([{ pid: 9 }, { pid: 2 }]);
  });

  it('counts growth since the last exact figure, and measures again when it is much', async () => {
    const { clock, list, reads, sizes } = machine({ 1: 2 * GiB });
    await list.read();
    sizes[1] = 2 * GiB + 10 * MiB;
    await clock.advance(1);
    expect(await list.read()).toMatchObject([{ usedBytes: GiB + 10 * MiB }]);
    sizes[1] = 3 * GiB;
    await clock.advance(1);
    expect(await reads()).toContain('pss 1');
    expect(await list.read()).toMatchObject([{ usedBytes: 1.5 * GiB }]);
    // Above the limit it goes on from there: another measure would look like growth.
    sizes[1] = 9 * GiB;
    await clock.advance(1);
    expect(await list.read()).toMatchObject([{ usedBytes: 7.5 * GiB }]);
  });

  it('does not walk pages more often than a thousandth of the time allows', async () => {
    const { clock, list, reads, sizes } = machine({ 1: GiB }, { secondsPerRead: 0.02 });
    await list.read();
    let walks = 0;
    for (let second = 0; second < 100; second++) {
      sizes[1] = (sizes[1] ?? 0) + 64 * MiB;
      await clock.advance(1);
      walks += (await reads()).filter((one) => one.startsWith('pss')).length;
    }
    // 20 ms each: one in 20 s.
    expect(walks).toBeGreaterThanOrEqual(4);
    expect(walks).toBeLessThanOrEqual(5);
  });

  it('is unknown where nothing can be seen', async () => {
    expect(await machine({}).list.read()).toBe('unknown');
  });
});
