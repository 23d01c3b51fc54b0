import { GiB } from '../../units/bytes.js';
import { type ProcessRow, rowKey } from './build-rows.js';

/** Returns a complete row; a test states only the fields it is about. */
export function fakeRow(parts: Partial<ProcessRow> = {}): ProcessRow {
  const pid = parts.pid ?? 4242;
  const deviceId = parts.deviceId ?? 'gpu:0';
  return {
    key: rowKey(pid, deviceId),
    pid,
    deviceId,
    usedBytes: 5 * GiB,
    sharePercent: 6.25,
    hostBytes: GiB,
    cpuPercent: 99,
    ageSeconds: 3723,
    user: 'ada',
    command: `python train.py --seed ${pid}`,
    job: 'none',
    container: 'none',
    parent: 100,
    started: 7,
    isSimulated: false,
    growth: 'none',
    trail: [1, 2, 3].map((n) => n * GiB),
    branch: '',
    ...parts,
  };
}
