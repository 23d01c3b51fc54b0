import { describe, expect, it } from 'vitest';
import { HolderBook } from './memory-holders.js';

const named = (pid: number) => `program ${pid}`;
const [one, two] = [
  { pid: 1, bytes: 10 },
  { pid: 2, bytes: 30 },
];

describe('what held the memory of an attempt', () => {
  it('are its largest processes, the largest first, with the total of all', () => {
    const book = new HolderBook(named);
    const processes = Array.from({ length: 9 }, (_, pid) => ({ pid, bytes: pid * 100 }));
    book.add(1.234, processes, 7);
    expect(book.holders).toMatchObject({ atSeconds: 1.23, totalBytes: 3600, othersBytes: 7 });
    expect(book.holders?.processes.map(({ pid }) => pid)).toEqual([8, 7, 6, 5, 4]);
    expect(book.holders?.processes[0]).toEqual({ pid: 8, bytes: 800, command: 'program 8' });
  });

  it('are those before the largest was killed, while its parent still waits', () => {
    const book = new HolderBook(named);
    book.add(1, [one]);
    book.add(2, [one, two]);
    book.add(3, [one]);
    book.add(4, []);
    expect(book.holders).toMatchObject({ atSeconds: 2, totalBytes: 40, othersBytes: 'unknown' });
  });

  it('are not those of a peak long before the end', () => {
    const book = new HolderBook(named);
    book.add(1, [two]);
    book.add(40, [one]);
    expect(book.holders?.atSeconds).toBe(40);
    expect(new HolderBook(named).holders).toBeUndefined();
  });
});
