import { limits } from '../limits.js';
import { kind, kindOf, payloadMask } from '../pickle/values.js';
import { refuseLimit, refuseSnapshot } from '../refusals.js';
import type { Block, DeviceSnapshot, Events, Segment, Snapshot } from '../snapshot.js';
import type { SnapshotBuilder } from './builder.js';
import { blockState } from './known-strings.js';
import { namesOf } from './names.js';
import { shape } from './object-table.js';
import { RowList } from './row-list.js';
import type { SegmentRow } from './rows.js';
import { settingsOf } from './settings.js';

/** Makes a snapshot of the rows that were read; `result` is the pickle's outermost value. */
export function finishSnapshot(
  builder: SnapshotBuilder,
  result: number,
  protocol: number,
): Snapshot {
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
