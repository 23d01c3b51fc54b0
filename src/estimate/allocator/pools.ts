import type { BlockTable } from './block-table.js';
import { FreeSet } from './free-set.js';

/** The small or the large blocks of the default pool or of a private one (a CUDA graph's). */
export interface Pool {
  readonly small: boolean;
  readonly owner: number;
  /** Its free sets, one a stream. */
  readonly sets: number[];
  /** How often a block was looked for: the clock of garbage collection. */
  searches: number;
}

/** The owner of blocks that belong to no CUDA graph. */
export const defaultOwner = 0;

/** Finds the free set for an owner, a stream and a size class; makes it when first asked for. */
export class Pools {
  readonly all: Pool[];
  readonly sets: FreeSet[];
  /** The pool of each free set. */
  readonly poolOf: Pool[] = [];
  /** Owners whose graph is gone: their cached blocks may be released. */
  readonly released: Set<number>;
  readonly #blocks: BlockTable;
  /** The number of the small set, by stream, by owner; the large one follows it. */
  readonly #numbers: Map<number, Map<number, number>>;

  /** `from`: others, whose state they begin with; `blocks` are then a copy of theirs. */
  constructor(blocks: BlockTable, from?: Pools) {
    this.#blocks = blocks;
    this.all = (from?.all ?? []).map(({ small, owner, sets, searches }) => ({
      small,
      owner,
      sets: [...sets],
      searches,
    }));
    this.sets = (from?.sets ?? []).map((set) => set.copy(blocks));
    for (const pool of this.all) for (const set of pool.sets) this.poolOf[set] = pool;
    this.released = new Set(from?.released ?? [defaultOwner]);
    const numbers = from === undefined ? [] : [...from.#numbers];
    this.#numbers = new Map(numbers.map(([owner, streams]) => [owner, new Map(streams)]));
    this.setNumber(defaultOwner, 0, true);
  }

  setNumber(owner: number, stream: number, small: boolean): number {
    // The first pair made is the default pool on the default stream.
    if (owner === defaultOwner && stream === 0 && this.sets.length > 0) return small ? 0 : 1;
    let streams = this.#numbers.get(owner);
    if (streams === undefined) {
      streams = new Map();
      this.#numbers.set(owner, streams);
    }
    let number = streams.get(stream);
    if (number === undefined) {
      number = this.sets.length;
      streams.set(stream, number);
      for (const isSmall of [true, false]) this.#addSet(owner, isSmall);
    }
    return small ? number : number + 1;
  }

  countSearch(setNumber: number): void {
    this.poolAt(setNumber).searches += 1;
  }

  setAt(setNumber: number): FreeSet {
    const set = this.sets[setNumber];
    if (set === undefined) throw new RangeError(`There is no free set ${setNumber}.`);
    return set;
  }

  poolAt(setNumber: number): Pool {
    const pool = this.poolOf[setNumber];
    if (pool === undefined) throw new RangeError(`There is no free set ${setNumber}.`);
    return pool;
  }

  #addSet(owner: number, small: boolean): void {
    let pool = this.all.find((other) => other.owner === owner && other.small === small);
    if (pool === undefined) {
      pool = { small, owner, sets: [], searches: 0 };
      this.all.push(pool);
    }
    pool.sets.push(this.sets.length);
    this.sets.push(new FreeSet(this.#blocks));
    this.poolOf.push(pool);
  }
}
