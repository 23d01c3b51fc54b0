import { closeSync, fsyncSync, openSync, renameSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Device } from '../device/device.js';
import { hostProvider } from '../device/host/provider.js';
import { Failure } from '../failure.js';
import { readOwnDocument } from '../files/own-file.js';
import {
  badArgument,
  callable,
  checkArguments,
  checkOptions,
  fileName,
  object,
  percent,
  samples,
  seconds,
  whole,
} from '../units/arguments.js';
import { isKnown } from '../units/known.js';
import { median } from '../watch/diagnosis/growth.js';

export interface AdaptiveBatchesOptions {
  /** To begin with, and at most. */
  readonly batchSize: number;
  /** No batch but the last is smaller (1). */
  readonly smallestBatch?: number;
  /** Batches are halved above this much memory in use, in percent (85), and where it rises to it. */
  readonly shrinkAbovePercent?: number;
  /** And doubled again below this much (50). */
  readonly growBelowPercent?: number;
  /** How full the memory is; that of the host unless given. */
  readonly memoryPercent?: MemoryProbe;
  /** The memory is looked at no more often than this, in seconds (0.1). */
  readonly checkSeconds?: number;
  /** The file that keeps the position, so that a new process goes on after the last one ended. */
  readonly positionFile?: string;
  /** The first sample, when the position is kept elsewhere. */
  readonly startAt?: number;
  readonly onResize?: (size: number, usedPercent: number | undefined) => void;
  /** Seconds on any clock; for tests. */
  readonly now?: () => number;
}

/** Batches in the order of their samples, each sample in exactly one of them. */
export interface AdaptiveBatches<S> extends AsyncIterable<S[]> {
  /** Samples that are done. A batch is done when the next one is asked for. */
  readonly position: number;
  /** The size of the next batch. */
  readonly size: number;
  /**
   * The batch at hand was too large: its samples come again, in batches of half its size. False
   * where it cannot be made smaller.
   */
  again(): boolean;
}

/** After so many batches without a failure, a size that failed may be tried again. */
const cleanToForget = 100;

const defaults = { smallest: 1, shrinkAbove: 85, growBelow: 50, checkSeconds: 0.1 } as const;

/**
 * Goes over samples in batches whose size follows the memory: smaller when it gets scarce, larger
 * again when there is room. It holds one batch at a time, however long the source is.
 *
 * @example
 * const batches = adaptiveBatches(readLines('corpus.txt'), { batchSize: 256, positionFile: 'at.json' });
 * for await (const batch of batches) await embed(batch);
 */
export function adaptiveBatches<S>(
  source: SampleSource<S>,
  options: AdaptiveBatchesOptions,
): AdaptiveBatches<S> {
  refuseOdd(source, options);
  const rule: SizeRule = {
    largest: options.batchSize,
    smallest: options.smallestBatch ?? defaults.smallest,
    shrinkAbovePercent: options.shrinkAbovePercent ?? defaults.shrinkAbove,
    growBelowPercent: options.growBelowPercent ?? defaults.growBelow,
  };
  const now = options.now ?? (() => performance.now() / 1000);
  const checkSeconds = options.checkSeconds ?? defaults.checkSeconds;
  const saved = options.positionFile === undefined ? undefined : readPosition(options.positionFile);
  let position = saved?.done ?? options.startAt ?? 0;
  let size = Math.min(saved?.size ?? rule.largest, rule.largest);
  /** Handed out, and not done. */
  let current: S[] = [];
  /** To be handed out before anything new. */
  let waiting: S[] = [];
  let ceiling = rule.largest;
  let cleanBatches = 0;
  let checkedAt = Number.NEGATIVE_INFINITY;
  /** How full the memory was since this size was taken. */
  let seen: readonly number[] = [];

  const resize = (to: number, usedPercent: number | undefined) => {
    const wanted = Math.min(to, ceiling);
    if (wanted === size) return;
    size = wanted;
    seen = [];
    options.onResize?.(size, usedPercent);
  };

  function finishCurrent(): void {
    if (current.length === 0) return;
    position += current.length;
    current = [];
    if (++cleanBatches % cleanToForget === 0) ceiling = Math.min(rule.largest, ceiling * 2);
    if (options.positionFile !== undefined) {
      writePosition(options.positionFile, { done: position, size });
    }
  }

  async function check(probe: MemoryProbe): Promise<void> {
    const usedPercent = await probe();
    if (usedPercent === undefined) return;
    seen = [...seen, usedPercent].slice(-looksKept);
    resize(nextSize(size, seen, rule), usedPercent);
  }

  async function gather(reader: SampleReader<S>): Promise<S[]> {
    if (waiting.length >= size) return waiting.splice(0, size);
    const taken = reader.take(size - waiting.length);
    const fresh = Array.isArray(taken) ? taken : await taken;
    if (waiting.length === 0) return fresh;
    const all = [...waiting, ...fresh];
    waiting = [];
    return all;
  }

  async function* batches(): AsyncGenerator<S[]> {
    const probe = options.memoryPercent ?? (await hostMemoryPercent());
    const reader = await openSource(source, position);
    try {
      for (;;) {
        finishCurrent();
        if (now() - checkedAt >= checkSeconds) {
          checkedAt = now();
          await check(probe);
        }
        current = await gather(reader);
        if (current.length === 0) return;
        yield current;
      }
    } finally {
      await reader.close();
    }
  }

  return {
    [Symbol.asyncIterator]: batches,
    get position() {
      return position;
    },
    get size() {
      return size;
    },
    again() {
      const half = Math.floor(current.length / 2);
      if (half < rule.smallest) return false;
      waiting = [...current, ...waiting];
      current = [];
      // What failed at this size would fail again.
      ceiling = Math.max(rule.smallest, half);
      cleanBatches = 0;
      resize(ceiling, undefined);
      return true;
    },
  };
}

/** Refuses what would lose samples or never end: no batch is handed out before. */
function refuseOdd<S>(source: SampleSource<S>, options: AdaptiveBatchesOptions): void {
  const owner = 'adaptiveBatches';
  checkArguments(owner, { source }, { source: samples });
  const rules = {
    batchSize: whole(1),
    smallestBatch: whole(1),
    shrinkAbovePercent: percent,
    growBelowPercent: percent,
    memoryPercent: callable,
    checkSeconds: seconds,
    positionFile: fileName,
    startAt: whole(0),
    onResize: callable,
    now: callable,
  };
  checkOptions(owner, options, rules, ['batchSize']);
  const { batchSize, smallestBatch = defaults.smallest } = options;
  if (smallestBatch > batchSize) {
    throw badArgument(owner, 'smallestBatch', smallestBatch, `Pass ${batchSize} or less.`);
  }
  const { growBelowPercent: grow = defaults.growBelow } = options;
  const { shrinkAbovePercent: shrink = defaults.shrinkAbove } = options;
  if (grow >= shrink) {
    throw badArgument(owner, 'growBelowPercent', grow, `Pass less than ${shrink}.`);
  }
}

/** How full the memory is, 0 to 100; undefined where it is not known. */
export type MemoryProbe = () => number | undefined | Promise<number | undefined>;

/**
 * How full a device is, now.
 *
 * @example
 * const probe = await hostMemoryPercent();
 * console.log(await probe()); // 41.5
 */
export function deviceMemoryPercent(device: Pick<Device, 'read'>): MemoryProbe {
  checkArguments('deviceMemoryPercent', { device }, { device: object });
  return async () => {
    const { usedBytes, totalBytes } = await device.read();
    if (!isKnown(usedBytes) || !isKnown(totalBytes) || totalBytes === 0) return undefined;
    return (usedBytes / totalBytes) * 100;
  };
}

/** The memory of this machine, or of the cgroup that this process is in. */
export async function hostMemoryPercent(): Promise<MemoryProbe> {
  const [host] = (await hostProvider().list()).devices;
  return host === undefined ? () => undefined : deviceMemoryPercent(host);
}

/**
 * The source of samples: a list; an iterable; or a function that starts at a position, so that a
 * crash does not repeat a long way.
 */
export type SampleSource<S> =
  | readonly S[]
  | Iterable<S>
  | AsyncIterable<S>
  | ((startAt: number) => Iterable<S> | AsyncIterable<S>);

/** Hands out samples in order. */
interface SampleReader<S> {
  /** Up to `count` samples; fewer only at the end. A promise only where the source needs one. */
  take(count: number): S[] | Promise<S[]>;
  close(): Promise<void>;
}

/** Skipping is done in steps, so that a long way does not fill the memory. */
const skipStep = 1024;

async function openSource<S>(source: SampleSource<S>, startAt: number): Promise<SampleReader<S>> {
  if (Array.isArray(source)) return listReader(source, startAt);
  if (typeof source === 'function') return iterableReader(source(startAt));
  const reader = iterableReader(source as Iterable<S> | AsyncIterable<S>);
  for (let left = startAt; left > 0; ) {
    const skipped = (await reader.take(Math.min(left, skipStep))).length;
    if (skipped === 0) break;
    left -= skipped;
  }
  return reader;
}

function listReader<S>(list: readonly S[], startAt: number): SampleReader<S> {
  let at = startAt;
  return {
    take(count) {
      const taken = list.slice(at, at + count);
      at += taken.length;
      return taken;
    },
    close: () => Promise.resolve(),
  };
}

function iterableReader<S>(source: Iterable<S> | AsyncIterable<S>): SampleReader<S> {
  return Symbol.iterator in source ? syncReader(source) : asyncReader(source);
}

function syncReader<S>(source: Iterable<S>): SampleReader<S> {
  const iterator = source[Symbol.iterator]();
  let isDone = false;
  return {
    take(count) {
      const taken: S[] = [];
      while (taken.length < count && !isDone) {
        const { done, value } = iterator.next();
        if (done) isDone = true;
        else taken.push(value);
      }
      return taken;
    },
    close() {
      if (!isDone) iterator.return?.();
      isDone = true;
      return Promise.resolve();
    },
  };
}

function asyncReader<S>(source: AsyncIterable<S>): SampleReader<S> {
  const iterator = source[Symbol.asyncIterator]();
  let isDone = false;
  return {
    async take(count) {
      const taken: S[] = [];
      while (taken.length < count && !isDone) {
        const { done, value } = await iterator.next();
        if (done) isDone = true;
        else taken.push(value);
      }
      return taken;
    },
    async close() {
      if (!isDone) await iterator.return?.();
      isDone = true;
    },
  };
}

/** When the size of a batch follows the memory. Percentages are of the memory there is. */
interface SizeRule {
  /** The size to begin with, and the largest. */
  readonly largest: number;
  readonly smallest: number;
  readonly shrinkAbovePercent: number;
  readonly growBelowPercent: number;
}

/** Looks at the memory by which its rise is told. */
const looksKept = 4;

/** Memory that will be above the mark within so many looks counts as above it. */
const looksAhead = 2;

/**
 * The size of the next batch: half above the upper mark, or where memory rises to it; twice below
 * the lower one, where twice the batch stays below the upper one; else the same.
 *
 * `usedPercents` are the highest of each look since this size was taken, the newest last, and
 * `restingPercent` what is in use between batches, where that is known.
 *
 * @example
 * const rule = { largest: 32, smallest: 1, shrinkAbovePercent: 85, growBelowPercent: 50 };
 * nextSize(32, [90], rule); // 16
 * nextSize(32, [62, 68, 74, 80], rule); // 16
 */
export function nextSize(
  size: number,
  usedPercents: readonly number[],
  rule: SizeRule,
  restingPercent?: number,
): number {
  const used = usedPercents.at(-1);
  if (used === undefined) return size;
  if (used + looksAhead * rise(usedPercents) > rule.shrinkAbovePercent) {
    return Math.max(rule.smallest, Math.floor(size / 2));
  }
  const twice = used + Math.max(0, used - (restingPercent ?? used));
  if (used < rule.growBelowPercent && twice <= rule.shrinkAbovePercent) {
    return Math.min(rule.largest, size * 2);
  }
  return size;
}

/** Percent a look, in the middle of the last ones; what rises once is no trend. */
function rise(usedPercents: readonly number[]): number {
  const last = usedPercents.slice(-looksKept);
  if (last.length < looksKept) return 0;
  return Math.max(0, median(last.slice(1).map((used, index) => used - (last[index] ?? used))));
}

/** How far a pass over samples has come. */
export interface Position {
  /** Samples that are done: the next one has this number. */
  readonly done: number;
  /** The size that batches had. */
  readonly size: number;
}

/** A position has some 40 bytes; a longer file is something else. */
const longestBytes = 4096;

/** Reads how far a pass has come; undefined before it began. Refuses a file that is not ours. */
export function readPosition(path: string): Position | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const found = readOwnDocument(path, { schema: 1, maxBytes: longestBytes });
  const position = found && positionIn(found);
  if (position !== undefined) return position;
  throw new Failure({
    kind: 'input',
    code: 'bad-position',
    fact: `${path} is not a saved position.`,
    next: 'Name another file, or remove it to start from the beginning.',
  });
}

function positionIn({ done, size }: Readonly<Record<string, unknown>>): Position | undefined {
  if (typeof done !== 'number' || typeof size !== 'number') return undefined;
  const isWhole = Number.isSafeInteger(done) && Number.isSafeInteger(size);
  return isWhole && done >= 0 && size >= 1 ? { done, size } : undefined;
}

/** All of it or nothing, and on the disk when it returns. */
export function writePosition(path: string, { done, size }: Position): void {
  const fresh = `${path}.${process.pid}.tmp`;
  const file = openSync(fresh, 'w');
  try {
    writeSync(file, `${JSON.stringify({ schema: 1, done, size })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, path);
  // The name, too, must be on the disk: a power cut could bring the old one back.
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
