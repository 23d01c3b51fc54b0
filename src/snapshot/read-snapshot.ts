import { byteList, callable, checkArguments, fileName } from '../units/arguments.js';
import { PickleMachine } from './pickle/machine.js';
import { kind, kindOf, payloadMask, trueTag } from './pickle/values.js';
import { SnapshotBuilder } from './records/builder.js';
import { blockState } from './records/known-strings.js';
import { RowList, type SegmentRow, shape } from './records/tables.js';
import { limits, refuseLimit, refuseSnapshot } from './refusals.js';
import type {
  Block,
  DeviceSnapshot,
  Events,
  Frame,
  Names,
  RecordedSettings,
  Segment,
  Snapshot,
} from './snapshot.js';
import { closeInput, openInput, PickleWindow, type SnapshotInput } from './snapshot-file.js';

/**
 * Opens what `torch.cuda.memory._dump_snapshot` wrote, plain, .gz or .xz, without running any of it.
 * The file is read once, piece by piece; what is kept are columns of numbers.
 *
 * @example
 * const snapshot = await readSnapshot('snapshot.pickle');
 * snapshot.devices[0]?.segments.length;
 */
export async function readSnapshot(
  path: string,
  /** How far it is, from 0 to 1, after each piece. */
  onShare: (share: number) => void = () => {},
): Promise<Snapshot> {
  checkArguments('readSnapshot', { path, onShare }, { path: fileName, onShare: callable });
  const input = await openInput(path);
  try {
    return await readInput(input, onShare);
  } finally {
    await closeInput(input);
  }
}

async function readInput(
  input: SnapshotInput,
  onShare: (share: number) => void,
): Promise<Snapshot> {
  const reader = startSnapshot(input.expectedBytes);
  await input.pour(reader.window, (bytes) => onShare(bytes / Math.max(1, input.fileBytes)));
  return reader.finish();
}

/**
 * A snapshot from bytes at hand.
 *
 * @example
 * parseSnapshot(await readFile('small.pickle')).devices.length;
 */
export function parseSnapshot(bytes: Uint8Array): Snapshot {
  checkArguments('parseSnapshot', { bytes }, { bytes: byteList });
  const reader = startSnapshot(bytes.length);
  reader.window.push(bytes);
  return reader.finish();
}

function startSnapshot(expectedBytes: number) {
  const builder = new SnapshotBuilder(expectedBytes);
  const machine = new PickleMachine(builder, expectedBytes);
  const window = new PickleWindow(machine, expectedBytes);
  const finish = (): Snapshot => {
    window.end();
    return finishSnapshot(builder, machine.result ?? 0, machine.protocol);
  };
  return { window, finish };
}

/** Makes a snapshot of the rows that were read; `result` is the pickle's outermost value. */
function finishSnapshot(builder: SnapshotBuilder, result: number, protocol: number): Snapshot {
  const { segments, traces, settings, annotations } = partsOf(builder, result);
  const byDevice = new Map<number, Segment[]>();
  for (let at = 0; at < (segments?.length ?? 0); at += 1) {
    const row = builder.segments[segments?.at(at) ?? 0];
    if (row === undefined) continue;
    if (row.device >= limits.devices) refuseLimit(`a device ${row.device}`, limits.devices);
    const own = byDevice.get(row.device) ?? [];
    own.push(segmentOf(builder, row));
    byDevice.set(row.device, own);
  }
  const count = Math.max(traces.length, ...[...byDevice.keys()].map((device) => device + 1));
  const devices: DeviceSnapshot[] = [];
  for (let device = 0; device < count; device += 1) {
    const events = eventsOf(builder, traces[device]);
    const own = byDevice.get(device) ?? [];
    if (events.length > 0 || own.length > 0) devices.push({ device, segments: own, events });
  }
  return {
    protocol,
    devices,
    settings: settingsOf(builder, settings),
    annotations: annotations.map(({ name, stage, device, timeUs }) => ({
      name: builder.strings.text(name),
      stage: builder.strings.text(stage),
      device,
      timeUs,
    })),
    names: namesOf(builder),
  };
}

/** The outermost value is the dict of `_snapshot()`, or the bare list of `memory_snapshot()`. */
function partsOf(builder: SnapshotBuilder, result: number) {
  const bare = builder.rowsOf(result, shape.segment);
  if (bare) return { segments: bare, traces: [], settings: undefined, annotations: [] };
  const root = result & payloadMask;
  if (kindOf(result) !== kind.object || builder.objects.shapeOf(root) !== shape.plainDict) {
    return refuseSnapshot('its outermost value is not a dict with segments and device_traces');
  }
  const find = (key: string) => {
    const bytes = new TextEncoder().encode(key);
    const id = builder.strings.idOf(bytes, 0, bytes.length);
    return builder.plain.find(builder.objects.rowOf(root), id);
  };
  const segments = find('segments');
  const traces = find('device_traces');
  if (segments === undefined && traces === undefined) {
    refuseSnapshot('it is a pickle of something else: no segments, no device_traces');
  }
  const annotations = builder.rowsOf(find('external_annotations'), shape.annotation);
  return {
    segments: builder.rowsOf(segments, shape.segment),
    traces: tracesOf(builder, traces),
    settings: find('allocator_settings'),
    annotations: Array.from({ length: annotations?.length ?? 0 }, (_, at) => {
      const row = builder.annotations[annotations?.at(at) ?? 0];
      return row ?? { name: -1, stage: -1, device: 0, timeUs: 0 };
    }),
  };
}

function tracesOf(builder: SnapshotBuilder, tag: number | undefined): (RowList | undefined)[] {
  if (tag === undefined || kindOf(tag) !== kind.object) return [];
  const object = tag & payloadMask;
  if (builder.objects.shapeOf(object) !== shape.plainList) return [];
  const { tags } = builder.plain.at(builder.objects.rowOf(object));
  if (tags.length > limits.devices) refuseLimit(`${tags.length} devices`, limits.devices);
  return tags.map((one) => builder.rowsOf(one, shape.event));
}

function eventsOf(builder: SnapshotBuilder, list = new RowList(shape.event)): Events {
  const { events } = builder;
  return {
    length: list.length,
    first: list.first,
    order: list.order(),
    action: events.action,
    address: events.address,
    bytes: events.bytes,
    timeUs: events.timeUs,
    stream: events.stream,
    stack: events.stack,
    deviceFree: events.deviceFree,
  };
}

const states: Readonly<Record<number, Block['state']>> = {
  [blockState.inactive]: 'inactive',
  [blockState.allocated]: 'allocated',
  [blockState.pendingFree]: 'pending-free',
};

function segmentOf(builder: SnapshotBuilder, row: SegmentRow): Segment {
  const { blocks: rows, ...rest } = row;
  const { blocks, pairs } = builder;
  const type = builder.strings.text(row.type);
  const pool = row.pool < 0 ? '0,0' : `${pairs.first[row.pool]},${pairs.second[row.pool]}`;
  return {
    address: rest.address,
    totalBytes: rest.totalBytes,
    allocatedBytes: rest.allocatedBytes,
    activeBytes: rest.activeBytes,
    requestedBytes: rest.requestedBytes,
    stream: rest.stream,
    type: type === 'small' || type === 'large' ? type : 'unknown',
    pool,
    expandable: rest.expandable,
    stack: rest.stack,
    blocks: Array.from({ length: rows?.length ?? 0 }, (_, index): Block => {
      const at = rows?.at(index) ?? 0;
      return {
        address: blocks.address.column[at] ?? -1,
        bytes: blocks.size.column[at] ?? 0,
        requestedBytes: blocks.requested.column[at] ?? 0,
        state: states[blocks.state.column[at] ?? 0] ?? 'inactive',
        stack: blocks.stack.column[at] ?? 0,
      };
    }),
  };
}

type Plain = string | number | boolean | undefined | ReadonlyMap<string, Plain>;

/** Returns the process's allocator settings, as far as the snapshot has them. */
function settingsOf(builder: SnapshotBuilder, tag: number | undefined): RecordedSettings {
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

function namesOf(builder: SnapshotBuilder): Names {
  const { stacks, addresses, streams } = builder;
  const frames = new Map<number, Frame>();
  const texts = new Map<number, string>();
  const text = (id: number): string => {
    const known = texts.get(id) ?? builder.strings.text(id);
    texts.set(id, known);
    return known;
  };
  const frame = (id: number): Frame => {
    const known = frames.get(id) ?? {
      name: text(builder.frames.first[id] ?? 0),
      file: text(builder.frames.second[id] ?? 0),
      line: builder.frames.third[id] ?? 0,
    };
    frames.set(id, known);
    return known;
  };
  return {
    stacks,
    addressCount: addresses.length,
    offset: offsetsOf(addresses.first, addresses.second, addresses.length),
    address: (id) => whole(addresses.first[id] ?? 0, addresses.second[id] ?? 0),
    stream: (id) => String(whole(streams.first[id] ?? 0, streams.second[id] ?? 0)),
    frame,
    stack: (id) => [...stacks.frames.subarray(stacks.startOf(id), stacks.endOf(id))].map(frame),
  };
}

function whole(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}

/** Addresses may pass 2^53, distances between those of one process do not. */
function offsetsOf(high: Uint32Array, low: Uint32Array, length: number): Float64Array {
  let leastHigh = Infinity;
  let maxHigh = 0;
  for (let id = 0; id < length; id += 1) {
    leastHigh = Math.min(leastHigh, high[id] ?? 0);
    maxHigh = Math.max(maxHigh, high[id] ?? 0);
  }
  if (maxHigh - leastHigh >= 2 ** 21) refuseSnapshot('its addresses lie 2^53 bytes apart');
  const offset = new Float64Array(length);
  for (let id = 0; id < length; id += 1) {
    offset[id] = ((high[id] ?? 0) - leastHigh) * 2 ** 32 + (low[id] ?? 0);
  }
  return offset;
}
