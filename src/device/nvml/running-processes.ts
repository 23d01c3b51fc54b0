import type { Known } from '../../units/known.js';
import { nvmlCodes } from './codes.js';
import type { NvmlLibrary, NvmlSymbol } from './library.js';
import {
  decodeProcessRecords,
  largestRecordBytes,
  type ProcessRecord,
  probeStride,
  type RecordStride,
  unwrittenByte,
} from './process-records.js';

/** The lists a device keeps, and the functions that give each: newest first, with their record. */
const lists: readonly (readonly (readonly [NvmlSymbol, RecordStride])[])[] = [
  [
    ['nvmlDeviceGetComputeRunningProcesses_v3', 24],
    ['nvmlDeviceGetComputeRunningProcesses_v2', 24],
    ['nvmlDeviceGetComputeRunningProcesses', 16],
  ],
  [
    ['nvmlDeviceGetGraphicsRunningProcesses_v3', 24],
    ['nvmlDeviceGetGraphicsRunningProcesses_v2', 24],
    ['nvmlDeviceGetGraphicsRunningProcesses', 16],
  ],
  [
    ['nvmlDeviceGetMPSComputeRunningProcesses_v3', 24],
    ['nvmlDeviceGetMPSComputeRunningProcesses_v2', 24],
    ['nvmlDeviceGetMPSComputeRunningProcesses', 16],
  ],
];

/** Processes come and go between two calls; after this many tries the list is called unknown. */
const tries = 5;

/** More processes than this on one GPU is no answer to believe: it would be 32 MiB of records. */
const maxProcesses = 1_000_000;

/**
 * All processes on a device, each once. A process that computes and draws is in two lists with the
 * same memory, so the larger figure counts and not their sum. `unknown` when no list can be had.
 */
export function queryRunningProcesses(
  library: NvmlLibrary,
  handle: number,
  known: { totalBytes: Known<number>; isRunning: (pid: number) => boolean },
): Known<readonly ProcessRecord[]> {
  const merged = new Map<number, ProcessRecord>();
  let answered = false;
  for (const functions of lists) {
    const records = queryList(library, handle, functions, known);
    if (records === 'unknown') continue;
    answered = true;
    for (const record of records) {
      const other = merged.get(record.pid);
      if (other === undefined || isLarger(record, other)) merged.set(record.pid, record);
    }
  }
  return answered ? [...merged.values()] : 'unknown';
}

function queryList(
  library: NvmlLibrary,
  handle: number,
  functions: readonly (readonly [NvmlSymbol, RecordStride])[],
  known: { totalBytes: Known<number>; isRunning: (pid: number) => boolean },
): Known<readonly ProcessRecord[]> {
  const counter = new ArrayBuffer(8);
  const count = new DataView(counter);
  const countAddress = library.addressOf(counter);
  for (const [symbol, expected] of functions) {
    const call = library.find(symbol);
    if (call === undefined) continue;
    // Asked with no room, it answers how many there are.
    let code = call(handle, countAddress, 0);
    if (code === nvmlCodes.success) return [];
    for (let attempt = 0; attempt < tries && code === nvmlCodes.insufficientSize; attempt += 1) {
      const room = Math.min(count.getUint32(0, true), maxProcesses) * 2 + 5;
      const records = new ArrayBuffer(room * largestRecordBytes);
      const bytes = new Uint8Array(records).fill(unwrittenByte);
      count.setUint32(0, room, true);
      code = call(handle, countAddress, library.addressOf(records));
      if (code === nvmlCodes.success) {
        const written = Math.min(count.getUint32(0, true), room);
        const stride = probeStride(bytes, written, { expected, ...known });
        return decodeProcessRecords(bytes, written, stride);
      }
    }
    // The library may export a function that its driver does not have: the older one is next.
    if (code !== nvmlCodes.functionNotFound) return 'unknown';
  }
  return 'unknown';
}

function isLarger(a: ProcessRecord, b: ProcessRecord): boolean {
  if (a.usedBytes === 'unknown') return false;
  return b.usedBytes === 'unknown' || a.usedBytes > b.usedBytes;
}
