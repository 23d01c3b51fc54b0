import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import {
  type AllocatorSettings,
  defaultSettings,
  isPowerOfTwo,
  roundupIntervals,
  smallestOwnSegment,
} from './settings.js';

/** The meaning of a `PYTORCH_CUDA_ALLOC_CONF`. */
export interface AllocConf {
  readonly settings: Partial<AllocatorSettings>;
  /**
   * `per_process_memory_fraction`: the share of the device that the process may take; 1 if not set.
   * `allowedBytesOf` makes it the setting `allowedBytes` of one device.
   */
  readonly memoryFraction: number;
  /** Options that PyTorch takes and the simulation leaves alone. */
  readonly ignored: readonly string[];
  /** Why the simulation does not show what this configuration would do; usually empty. */
  readonly notes: readonly string[];
}

/** The real ones are below 200 characters; more is not a setting. */
const longestConf = 4096;

type Writable = { -readonly [K in keyof AllocatorSettings]?: AllocatorSettings[K] };

/**
 * Reads `PYTORCH_CUDA_ALLOC_CONF` (or `PYTORCH_ALLOC_CONF`) as PyTorch 2.11 does, and refuses what
 * it would refuse. Stricter in one point: a number must be all of the value, `64MB` is not 64.
 *
 * @example
 * parseAllocConf('max_split_size_mb:128,garbage_collection_threshold:0.8').settings;
 * // { maxSplitBytes: 134217728, garbageCollectionThreshold: 0.8 }
 */
export function parseAllocConf(text: string): AllocConf {
  if (text.length > longestConf) refuseConf(`It is longer than ${longestConf} characters.`);
  const options = splitOptions(text.replaceAll(/\s/g, ''));
  const settings: Writable = {};
  const ignored: string[] = [];
  const notes: string[] = [];
  let memoryFraction = 1;
  // Two other options are held against this one, wherever it stands.
  for (const [key, value] of options) {
    if (key === 'large_segment_size_mb') settings.largeSegmentBytes = largeSegment(key, value);
  }
  const least = (settings.largeSegmentBytes ?? defaultSettings.largeSegmentBytes) / MiB;
  for (const [key, value] of options) {
    switch (key) {
      case 'large_segment_size_mb':
        break;
      case 'max_split_size_mb':
        settings.maxSplitBytes = mebibytes(key, value, least);
        break;
      case 'max_non_split_rounding_mb':
        settings.maxNonSplitRoundingBytes = mebibytes(key, value, least);
        break;
      case 'garbage_collection_threshold':
        settings.garbageCollectionThreshold = share(key, value, 'without-ends');
        break;
      case 'per_process_memory_fraction':
        memoryFraction = share(key, value, 'with-ends');
        break;
      case 'roundup_power2_divisions':
        settings.roundupDivisions = divisions(value);
        break;
      case 'expandable_segments':
        settings.expandableSegments = flag(key, value);
        break;
      case 'backend':
        notes.push(...backendNotes(value));
        if (value !== 'native') ignored.push(key);
        break;
      default: {
        const check = withoutEffect.get(key);
        if (check === undefined)
          return refuseConf(`"${key}" is not an option of PyTorch's allocator.`);
        check(key, value);
        ignored.push(key);
      }
    }
  }
  return { settings, memoryFraction, ignored, notes };
}

function largeSegment(key: string, value: string): number {
  return mebibytes(key, value, smallestOwnSegment / MiB + 1);
}

function backendNotes(value: string): string[] {
  if (value === 'native') return [];
  if (value !== 'cudaMallocAsync') {
    refuseConf(`The backend "${value}" is unknown; there are native and cudaMallocAsync.`);
  }
  return ["cudaMallocAsync is the driver's own allocator; what is simulated is PyTorch's, native."];
}

/** `a:1,b:[2:3,4:5]` as [a, 1], [b, [2:3,4:5]]: commas inside brackets do not separate. */
function splitOptions(text: string): [string, string][] {
  const options: [string, string][] = [];
  const pattern = /([^,:[\]]+):(\[[^[\]]*\]|[^,:[\]]+)(,|$)/y;
  while (pattern.lastIndex < text.length) {
    const from = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) refuseConf(`After "${text.slice(0, from)}", "name:value" was expected.`);
    options.push([match[1] ?? '', match[2] ?? '']);
  }
  return options;
}

/** Keeps a size in bytes exact; no device comes near. */
const maxMebibytes = 2 ** 30;
/** PyTorch's own bound. */
const maxRegisterThreads = 128;

/** Options that do not change what is reserved on the device, each with what PyTorch asks of it. */
const withoutEffect: ReadonlyMap<string, (key: string, value: string) => unknown> = new Map([
  ['graph_capture_record_stream_reuse', flag],
  ['pinned_max_cached_size_mb', count],
  ['pinned_max_round_threshold_mb', count],
  ['pinned_num_register_threads', registerThreads],
  ['pinned_reserve_segment_size_mb', count],
  ['pinned_use_background_threads', flag],
  ['pinned_use_cuda_host_register', flag],
  ['pinned_use_hip_host_register', flag],
  ['release_lock_on_cudamalloc', flag],
  ['release_lock_on_hipmalloc', flag],
]);

/** A size in MiB, as bytes. */
function mebibytes(key: string, value: string, least: number): number {
  const megabytes = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
  if (!(megabytes >= least && megabytes <= maxMebibytes)) {
    refuseConf(`${key} must be a whole number, at least ${least}.`);
  }
  return megabytes * MiB;
}

/** A number between 0 and 1. */
function share(key: string, value: string, ends: 'with-ends' | 'without-ends'): number {
  const isNumber = /^(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$/.test(value);
  const number = isNumber ? Number(value) : Number.NaN;
  const between = ends === 'with-ends' ? number >= 0 && number <= 1 : number > 0 && number < 1;
  if (!between) {
    const which = ends === 'with-ends' ? 'from 0 to 1' : 'between 0 and 1, without them';
    refuseConf(`${key} must be a number ${which}.`);
  }
  return number;
}

function flag(key: string, value: string): boolean {
  if (value !== 'True' && value !== 'False') refuseConf(`${key} must be True or False.`);
  return value === 'True';
}

function count(key: string, value: string): void {
  if (!(wholeNumber(value) > 0)) refuseConf(`${key} must be a whole number above 0.`);
}

function registerThreads(key: string, value: string): void {
  const threads = wholeNumber(value);
  if (isPowerOfTwo(threads) && threads <= maxRegisterThreads) return;
  refuseConf(`${key} must be a power of two, at most ${maxRegisterThreads}.`);
}

/** One number for all sizes, or a list `[256:1,512:2,>:4]` by size in MiB. */
function divisions(value: string): number[] {
  if (!value.startsWith('[')) {
    const steps = wholeNumber(value);
    if (!isPowerOfTwo(steps)) refuseConf('roundup_power2_divisions must be a power of two.');
    return Array.from({ length: roundupIntervals }, () => steps);
  }
  const table = Array.from({ length: roundupIntervals }, () => 0);
  const list = value.slice(1, -1).replace(/,$/, '');
  let last: number | undefined;
  for (const entry of list === '' ? [] : list.split(',')) {
    const [size = '', steps = '', more] = entry.split(':');
    const parts = wholeNumber(steps);
    if (more !== undefined || !(parts === 0 || isPowerOfTwo(parts))) refuseDivisions(entry);
    if (size === '>') {
      table.fill(parts, (last ?? 0) + 1);
      continue;
    }
    const megabytes = wholeNumber(size);
    if (!isPowerOfTwo(megabytes)) refuseDivisions(entry);
    const at = Math.min(Math.log2(megabytes), roundupIntervals - 1);
    // The first entry also holds for everything smaller.
    if (last === undefined) table.fill(parts, 0, at);
    table[at] = parts;
    last = at;
  }
  return table;
}

function wholeNumber(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

function refuseDivisions(entry: string): never {
  refuseConf(`"${entry}" in roundup_power2_divisions is not a pair of powers of two.`);
}

/** A value that PyTorch would refuse. */
export class BadAllocConf extends Failure {
  /** The problem, as a sentence. */
  readonly problem: string;

  constructor(problem: string) {
    super({
      kind: 'input',
      code: 'bad-alloc-conf',
      fact: `PYTORCH_CUDA_ALLOC_CONF cannot be used: ${problem}`,
      next: 'Write it like "expandable_segments:True,garbage_collection_threshold:0.8".',
    });
    this.problem = problem;
  }
}

function refuseConf(problem: string): never {
  throw new BadAllocConf(problem);
}
