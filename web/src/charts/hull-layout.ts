import { isKnown } from '../../../src/units/known.js';
import type { DeviceView } from '../api/types.js';

/** A layer of what lies in the hull, in shares of the capacity counted from the keel. */
export interface Layer {
  readonly kind: 'other' | 'job' | 'releasing';
  readonly jobId: string;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /** How much of the layer is really in use, 0 to 1; undefined where it is not known. */
  readonly filled: number | undefined;
  /** It holds more than was promised to it. */
  readonly over: boolean;
}

export interface HullLayout {
  readonly layers: readonly Layer[];
  /** Where the line is, as a share of the capacity; undefined where the capacity is unknown. */
  readonly line: number | undefined;
  /** How deep it lies in the water: what the device says is used. */
  readonly water: number | undefined;
  /** Room between reservations and the line. */
  readonly room: { readonly from: number; readonly to: number } | undefined;
}

const nothing: HullLayout = { layers: [], line: undefined, water: undefined, room: undefined };

/** What is stacked in a device's hull: other processes at the bottom, then jobs, then memory being released. */
export function hullLayout(device: DeviceView): HullLayout {
  const total = device.totalBytes;
  if (!isKnown(total) || total <= 0) return nothing;
  const layers: Layer[] = [];
  let top = 0;
  const add = (layer: Omit<Layer, 'from' | 'to'>): void => {
    const to = Math.min(1, top + layer.bytes / total);
    layers.push({ ...layer, from: top, to });
    top = to;
  };
  if (isKnown(device.otherProcessesBytes) && device.otherProcessesBytes > 0) {
    const bytes = device.otherProcessesBytes;
    add({ kind: 'other', jobId: '', name: 'other', bytes, filled: 1, over: false });
  }
  const stacked = [
    ...device.reservations.filter(({ isReleasing }) => !isReleasing),
    ...device.reservations.filter(({ isReleasing }) => isReleasing),
  ];
  for (const { jobId, name, bytes, usedBytes, isReleasing } of stacked) {
    const used = isKnown(usedBytes) ? usedBytes : undefined;
    add({
      kind: isReleasing ? 'releasing' : 'job',
      jobId,
      name,
      bytes,
      filled: used === undefined ? undefined : bytes > 0 ? Math.min(1, used / bytes) : 0,
      over: used !== undefined && used > bytes,
    });
  }
  // What returns but belongs to no job that is still listed.
  const listed = stacked.filter(({ isReleasing }) => isReleasing);
  const rest = device.releasingBytes - listed.reduce((sum, { bytes }) => sum + bytes, 0);
  if (rest > 0) {
    const some = { jobId: '', name: 'releasing', bytes: rest, filled: undefined, over: false };
    add({ kind: 'releasing', ...some });
  }
  const line = device.loadLineBytes / total;
  const to = Math.min(line, top + device.availableBytes / total);
  return {
    layers,
    line,
    water: isKnown(device.usedBytes) ? Math.min(1, device.usedBytes / total) : undefined,
    room: to > top ? { from: top, to } : undefined,
  };
}
