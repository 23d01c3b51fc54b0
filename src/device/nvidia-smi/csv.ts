import { MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import { presentableName } from '../process-names.js';

/** What `--query-gpu` is asked for, in this order. */
export const gpuFields = [
  'index',
  'uuid',
  'name',
  'driver_version',
  'memory.total',
  'memory.used',
  'memory.free',
  'utilization.gpu',
] as const;

/** What `--query-compute-apps` is asked for, in this order. */
export const processFields = ['gpu_uuid', 'pid', 'process_name', 'used_memory'] as const;

export interface GpuRow {
  readonly index: number;
  readonly uuid: Known<string>;
  readonly name: Known<string>;
  readonly driver: Known<string>;
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly utilizationPercent: Known<number>;
}

export interface ProcessRow {
  readonly gpuUuid: string;
  readonly pid: number;
  readonly name: Known<string>;
  readonly usedBytes: Known<number>;
}

/** A machine holds at most some tens of GPUs; thousands of lines are no answer of nvidia-smi. */
const maxLines = 10_000;

/**
 * Reads the rows of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`. A line that is no
 * such row (a warning, an error in words) is left out.
 *
 * @example
 * parseGpuRows('0, GPU-1, NVIDIA L4, 580.65, 23034, 512, 22062, [N/A]\n');
 */
export function parseGpuRows(text: string): readonly GpuRow[] {
  const rows: GpuRow[] = [];
  for (const cells of cellsOf(text, gpuFields.length)) {
    const [index, uuid, name, driver, total, used, free, utilization] = cells;
    if (index === undefined || !/^\d{1,6}$/.test(index)) continue;
    const percent = wholeNumber(utilization);
    rows.push({
      index: Number(index),
      uuid: wordOf(uuid),
      name: wordOf(name),
      driver: wordOf(driver),
      totalBytes: mebibytes(total),
      usedBytes: mebibytes(used),
      freeBytes: mebibytes(free),
      utilizationPercent: percent !== 'unknown' && percent <= 100 ? percent : 'unknown',
    });
  }
  return rows;
}

/** Reads the rows of `nvidia-smi --query-compute-apps=...`; a line that is no such row is left out. */
export function parseProcessRows(text: string): readonly ProcessRow[] {
  const rows: ProcessRow[] = [];
  for (const cells of cellsOf(text, processFields.length)) {
    const [gpuUuid, pid, name, used] = cells;
    const known = wholeNumber(pid);
    if (gpuUuid === undefined || gpuUuid === '' || known === 'unknown' || known === 0) continue;
    rows.push({ gpuUuid, pid: known, name: programName(name), usedBytes: mebibytes(used) });
  }
  return rows;
}

/** Lines split at ", ". A name may hold a comma: surplus cells go to the third, where names are. */
function* cellsOf(text: string, width: number): Generator<readonly string[]> {
  let lines = 0;
  for (const line of text.split('\n')) {
    lines += 1;
    if (lines > maxLines) return;
    const cells = line.split(',').map((cell) => cell.trim());
    if (cells.length < width) continue;
    const surplus = cells.length - width;
    yield [
      ...cells.slice(0, 2),
      cells.slice(2, 3 + surplus).join(', '),
      ...cells.slice(3 + surplus),
    ];
  }
}

/** `[N/A]`, `[Not Supported]`, `[Insufficient Permissions]`, `[Unknown Error]` and the like. */
function wordOf(cell: string | undefined): Known<string> {
  if (cell === undefined || cell === '' || cell === 'N/A' || /^\[.*\]$/.test(cell))
    return 'unknown';
  return cell;
}

function programName(cell: string | undefined): Known<string> {
  const path = wordOf(cell);
  if (path === 'unknown') return 'unknown';
  return presentableName(path.split(/[\\/]/).at(-1) || path);
}

function wholeNumber(cell: string | undefined): Known<number> {
  return cell !== undefined && /^\d{1,15}$/.test(cell) ? Number(cell) : 'unknown';
}

function mebibytes(cell: string | undefined): Known<number> {
  const count = wholeNumber(cell);
  // 2^53 bytes are 8 EiB: more is a slip of the program, not a card.
  return count === 'unknown' || !Number.isSafeInteger(count * MiB) ? 'unknown' : count * MiB;
}
