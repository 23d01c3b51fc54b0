import { allocatedMark, type BlockTable, none, unmappedMark } from './block-table.js';
import type { Pools } from './pools.js';

export interface BlockView {
  readonly address: number;
  readonly bytes: number;
  readonly state: 'allocated' | 'free' | 'unmapped';
}

export interface SegmentView {
  readonly address: number;
  /** Memory behind it; address space without memory does not count. */
  readonly bytes: number;
  readonly pool: 'small' | 'large';
  readonly expandable: boolean;
  readonly blocks: readonly BlockView[];
}

/** Every segment with its blocks, by address. */
export function viewSegments(table: BlockTable, pools: Pools): SegmentView[] {
  const views: SegmentView[] = [];
  for (let block = 0; block < table.extent; block += 1) {
    const live = (table.size[block] ?? 0) > 0;
    if (!live || table.previous[block] !== none) continue;
    views.push(viewOne(table, pools, block));
  }
  return views.toSorted((a, b) => a.address - b.address);
}

function viewOne(table: BlockTable, pools: Pools, first: number): SegmentView {
  const blocks: BlockView[] = [];
  let bytes = 0;
  for (let block = first; block !== none; block = table.next[block] ?? 0) {
    const mark = table.marks[block] ?? 0;
    const size = table.size[block] ?? 0;
    if (mark !== unmappedMark) bytes += size;
    blocks.push({ address: table.address[block] ?? 0, bytes: size, state: stateOf(mark) });
  }
  return {
    address: table.address[first] ?? 0,
    bytes,
    pool: pools.poolAt(table.set[first] ?? 0).small ? 'small' : 'large',
    expandable: table.expandable[first] !== none,
    blocks,
  };
}

function stateOf(mark: number): BlockView['state'] {
  if (mark === allocatedMark) return 'allocated';
  return mark === unmappedMark ? 'unmapped' : 'free';
}
