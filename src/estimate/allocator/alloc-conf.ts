import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { type AllocatorSettings, isPowerOfTwo } from './settings.js';
import { roundupIntervals, sharedSegment } from './sizes.js';

/** What a `PYTORCH_CUDA_ALLOC_CONF` says. */
export interface AllocConf {
  readonly settings: Partial<AllocatorSettings>;
  /** Options that PyTorch knows and that do not change what is reserved. */
  readonly ignored: readonly string[];
}

/** The real ones are below 200 characters; more is not a setting. */
const longestConf = 4096;
/** Keeps a size in bytes exact; no device comes near. */
const mostMebibytes = 2 ** 30;

const withoutEffect: ReadonlySet<string> = new Set([
  'graph_capture_record_stream_reuse',
  'pinned_max_cached_size_mb',
  'pinned_max_round_threshold_mb',
  'pinned_num_register_threads',
  'pinned_reserve_segment_size_mb',
  'pinned_use_background_threads',
  'pinned_use_cuda_host_register',
  'pinned_use_hip_host_register',
  'release_lock_on_cudamalloc',
  'release_lock_on_hipmalloc',
]);

type Writable = { -readonly [K in keyof AllocatorSettings]?: AllocatorSettings[K] };

/**
 * Reads `PYTORCH_CUDA_ALLOC_CONF` (or `PYTORCH_ALLOC_CONF`) as PyTorch does, and refuses what
 * PyTorch would refuse.
 *
 * @example
 * parseAllocConf('max_split_size_mb:128,garbage_collection_threshold:0.8').settings;
 * // { maxSplitBytes: 134217728, garbageCollectionThreshold: 0.8 }
 */
export function parseAllocConf(text: string): AllocConf {
  if (text.length > longestConf) refuse(`It is longer than ${longestConf} characters.`);
  const settings: Writable = {};
  const ignored: string[] = [];
  for (const [key, value] of splitOptions(text.replaceAll(' ', ''))) {
    switch (key) {
      case 'max_split_size_mb':
        settings.maxSplitBytes = mebibytes(key, value);
        break;
      case 'max_non_split_rounding_mb':
        settings.maxNonSplitRoundingBytes = mebibytes(key, value);
        break;
      case 'garbage_collection_threshold':
        settings.garbageCollectionThreshold = share(key, value);
        break;
      case 'roundup_power2_divisions':
        settings.roundupDivisions = divisions(value);
        break;
      case 'expandable_segments':
        if (value !== 'True' && value !== 'False') refuse(`${key} must be True or False.`);
        settings.expandableSegments = value === 'True';
        break;
      case 'backend':
        if (value !== 'native') refuse(`The backend "${value}" is not simulated, only native is.`);
        break;
      default:
        if (!withoutEffect.has(key)) refuse(`"${key}" is no option that can be simulated.`);
        ignored.push(key);
    }
  }
  return { settings, ignored };
}

/** `a:1,b:[2:3,4:5]` as [a, 1], [b, [2:3,4:5]]: commas inside brackets do not separate. */
function splitOptions(text: string): [string, string][] {
  const options: [string, string][] = [];
  const pattern = /([^,:[\]]+):(\[[^[\]]*\]|[^,:[\]]+)(,|$)/y;
  while (pattern.lastIndex < text.length) {
    const from = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) refuse(`After "${text.slice(0, from)}", "name:value" was expected.`);
    options.push([match[1] ?? '', match[2] ?? '']);
  }
  return options;
}

function mebibytes(key: string, value: string): number {
  const count = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
  if (!(count * MiB >= sharedSegment && count <= mostMebibytes)) {
    refuse(`${key} must be a whole number, at least 20.`);
  }
  return count * MiB;
}

function share(key: string, value: string): number {
  const number = /^\d*\.?\d+$/.test(value) ? Number(value) : Number.NaN;
  if (!(number > 0 && number < 1)) refuse(`${key} must lie between 0 and 1.`);
  return number;
}

/** One number for all sizes, or a list `[256:1,512:2,>:4]` by size in MiB. */
function divisions(value: string): number[] {
  if (!value.startsWith('[')) {
    const steps = wholeNumber(value);
    if (!isPowerOfTwo(steps)) refuse('roundup_power2_divisions must be a power of two.');
    return Array.from({ length: roundupIntervals }, () => steps);
  }
  const table = Array.from({ length: roundupIntervals }, () => 0);
  let last: number | undefined;
  for (const entry of value.slice(1, -1).split(',')) {
    const [size = '', count = '', more] = entry.split(':');
    const steps = wholeNumber(count);
    if (more !== undefined || !(steps === 0 || isPowerOfTwo(steps))) refuseDivisions(entry);
    if (size === '>') {
      table.fill(steps, (last ?? 0) + 1);
      continue;
    }
    const megabytes = wholeNumber(size);
    if (!isPowerOfTwo(megabytes)) refuseDivisions(entry);
    const at = Math.min(Math.log2(megabytes), roundupIntervals - 1);
    // The first entry also holds for everything smaller.
    if (last === undefined) table.fill(steps, 0, at);
    table[at] = steps;
    last = at;
  }
  return table;
}

function wholeNumber(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

function refuseDivisions(entry: string): never {
  refuse(`"${entry}" in roundup_power2_divisions is not a pair of powers of two.`);
}

function refuse(fact: string): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-alloc-conf',
    fact: `PYTORCH_CUDA_ALLOC_CONF cannot be used: ${fact}`,
    next: 'Write it like "expandable_segments:True,garbage_collection_threshold:0.8".',
  });
}
