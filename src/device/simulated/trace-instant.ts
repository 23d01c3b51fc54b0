import type { RecordedTrace, TraceRow } from '../recorded-trace.js';
import type { AllocatorReading } from '../types.js';

/** The row that holds at a time: the last one not after it, or the first before the beginning. */
export function rowAt(rows: readonly TraceRow[], seconds: number): TraceRow | undefined {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((rows[middle]?.seconds ?? 0) <= seconds) low = middle;
    else high = middle - 1;
  }
  return rows[low];
}

/**
 * The capacity of the device a trace was recorded on. The recorded capacity may be an allocator's
 * own cap, with the driver's part of the device beside it.
 */
export function traceTotalBytes(trace: RecordedTrace): number {
  return trace.rows.reduce((most, row) => Math.max(most, usedOf(row)), trace.capacityBytes);
}

/** The device's use; where only an allocator was recorded, what that held. */
export function usedOf({ deviceUsedBytes, reservedBytes, allocatedBytes }: TraceRow): number {
  if (deviceUsedBytes !== 'unknown') return deviceUsedBytes;
  if (reservedBytes !== 'unknown') return reservedBytes;
  return allocatedBytes === 'unknown' ? 0 : allocatedBytes;
}

/** What the allocator reported, where the trace has it. */
export function allocatorOf(trace: RecordedTrace, row: TraceRow): AllocatorReading | undefined {
  const { allocatedBytes, reservedBytes } = row;
  if (allocatedBytes === 'unknown' || reservedBytes === 'unknown') return undefined;
  return { allocatedBytes, reservedBytes, limitBytes: trace.capacityBytes };
}
