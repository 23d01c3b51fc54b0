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
    const live = (table.size[block] as number) > 0;
    if (!live || table.previous[block] !== none) continue;
    views.push(viewOne(table, pools, block));
  }
  return views.toSorted((a, b) => a.address - b.address);
}

function viewOne(table: BlockTable, pools: Pools, first: number): SegmentView {
  const blocks: BlockView[] = [];
  let bytes = 0;
  for (let block = first; block !== none; block = table.next[block] as number) {
    const mark = table.marks[block] as number;
    const size = table.size[block] as number;
    if (mark !== unmappedMark) bytes += size;
    blocks.push({ address: table.address[block] as number, bytes: size, state: stateOf(mark) });
  }
  return {
    address: table.address[first] as number,
    bytes,
    pool: pools.poolOf[table.set[first] as number]?.small === true ? 'small' : 'large',
    expandable: table.expandable[first] !== none,
    blocks,
  };
}

function stateOf(mark: number): BlockView['state'] {
  if (mark === allocatedMark) return 'allocated';
  return mark === unmappedMark ? 'unmapped' : 'free';
}
