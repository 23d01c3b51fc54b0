import { limits } from '../limits.js';
import { kind, kindOf, payloadMask, trueTag } from '../pickle/values.js';
import type { RecordedSettings } from '../snapshot.js';
import type { SnapshotBuilder } from './builder.js';
import { shape } from './object-table.js';

type Plain = string | number | boolean | undefined | ReadonlyMap<string, Plain>;

/** What the process had set for its allocator, as far as the snapshot says. */
export function settingsOf(builder: SnapshotBuilder, tag: number | undefined): RecordedSettings {
  const found = tag === undefined ? undefined : plainOf(builder, tag, 0, 0);
  const settings: ReadonlyMap<string, Plain> = found instanceof Map ? found : new Map();
  const numberOf = (key: string, otherwise: number) => {
    const value = settings.get(key);
    return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
  };
  const conf = settings.get('PYTORCH_CUDA_ALLOC_CONF');
  const divisions = settings.get('roundup_power2_divisions');
  const steps = divisions instanceof Map ? [...divisions.values()] : [];
  const allZero = steps.every((step) => step === 0);
  return {
    allocConf: typeof conf === 'string' ? conf : '',
    expandableSegments: settings.get('expandable_segments') === true,
    maxSplitBytes: numberOf('max_split_size', -1),
    garbageCollectionThreshold: numberOf('garbage_collection_threshold', 0),
    roundupDivisions: allZero ? [] : steps.map((step) => (typeof step === 'number' ? step : 0)),
  };
}

function plainOf(builder: SnapshotBuilder, tag: number, number: number, depth: number): Plain {
  const payload = tag & payloadMask;
  switch (kindOf(tag)) {
    case kind.constant:
      return tag === trueTag ? true : tag === 1 ? false : undefined;
    case kind.string:
      return builder.strings.text(payload);
    case kind.integer:
    case kind.float:
      return number;
    default:
  }
  const isDict =
    kindOf(tag) === kind.object && builder.objects.shapeOf(payload) === shape.plainDict;
  if (!isDict || depth >= limits.settingsDepth) return undefined;
  const { tags, numbers } = builder.plain.at(builder.objects.rowOf(payload));
  const entries = new Map<string, Plain>();
  // Settings have some twenty keys; more are not looked at.
  for (let at = 0; at + 1 < Math.min(tags.length, 200); at += 2) {
    const key = plainOf(builder, tags[at] ?? 0, numbers[at] ?? 0, limits.settingsDepth);
    const value = plainOf(builder, tags[at + 1] ?? 0, numbers[at + 1] ?? 0, depth + 1);
    if (typeof key === 'string') entries.set(key, value);
  }
  return entries;
}
