import { MiB } from '../../units/bytes.js';
import {
  divisions,
  flag,
  mebibytes,
  refuseConf,
  share,
  withoutEffect,
} from './alloc-conf-values.js';
import { type AllocatorSettings, defaultSettings } from './settings.js';
import { smallestOwnSegment } from './sizes.js';

/** What a `PYTORCH_CUDA_ALLOC_CONF` says. */
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
