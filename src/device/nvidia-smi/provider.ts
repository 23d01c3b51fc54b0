import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type DeviceProvider,
  type MemoryReading,
  type ProcessReading,
} from '../device.js';
import { machineRoots, type Roots } from '../kernel-files.js';
import { nvidiaFiles } from '../nvml/nvidia-files.js';
import { presentableName, sortProcesses } from '../process-names.js';
import { GpuNumbers } from '../select-devices.js';

/** It answers within 30 ms on a healthy machine; a sick driver can hold it for minutes. */
const timeLimitMs = 10_000;

/** A row is some 120 bytes: this is room for ten thousand of them. */
const outputLimitBytes = 2 * 1024 * 1024;

/** How a run of the program ended; `exitCode` is undefined when it was stopped or never ran. */
export interface ProgramAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

/** Finds `nvidia-smi` on the PATH of `env`, with the time of its last change. */
function findNvidiaSmi(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
): { path: string; changedMs: number } | undefined {
  const name = platform === 'win32' ? 'nvidia-smi.exe' : 'nvidia-smi';
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      const stats = statSync(path);
      if (stats.isFile()) return { path, changedMs: stats.mtimeMs };
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/** Runs it; never rejects, whatever the program does. */
function runNvidiaSmi(
  path: string,
  args: readonly string[],
  limitMs = timeLimitMs,
): Promise<ProgramAnswer> {
  return new Promise((resolve) => {
    execFile(
      path,
      args,
      { timeout: limitMs, killSignal: 'SIGKILL', maxBuffer: outputLimitBytes, windowsHide: true },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        const exitCode = typeof code === 'number' ? code : undefined;
        resolve({ stdout, stderr, exitCode });
      },
    );
  });
}

export interface NvidiaSmiOptions {
  /** Environment whose PATH is searched. */
  readonly env?: NodeJS.ProcessEnv;
  readonly roots?: Roots;
  readonly numbers?: GpuNumbers;
  /** How long one run of the program may take. */
  readonly timeLimitMs?: number;
}

/** Exit codes of nvidia-smi after which its GPUs are gone: no driver, or a lost GPU. */
const lostExitCodes: ReadonlySet<number | undefined> = new Set([9, 15]);

/**
 * NVIDIA GPUs through the program `nvidia-smi`, for machines where the library cannot be loaded.
 * A reading starts a process, some 4000 times the cost of one through the library.
 *
 * @example
 * const { devices } = await nvidiaSmiProvider().list();
 */
export function nvidiaSmiProvider(options: NvidiaSmiOptions = {}): DeviceProvider {
  return new NvidiaSmiProvider(options);
}

class NvidiaSmiProvider implements DeviceProvider {
  readonly source = 'nvidia-smi';
  readonly #options: NvidiaSmiOptions;
  readonly #numbers: GpuNumbers;
  readonly #known = new Map<string, Device>();
  readonly #lost = new Set<string>();
  #pending: Promise<GpuAnswer> | undefined;

  constructor(options: NvidiaSmiOptions) {
    this.#options = options;
    this.#numbers = options.numbers ?? new GpuNumbers();
  }

  fingerprint(): Promise<string> {
    const program = this.#program();
    const place = program === undefined ? 'none' : `${program.path} ${program.changedMs}`;
    const files = nvidiaFiles(this.#options.roots ?? machineRoots);
    return Promise.resolve([place, ...files, ...[...this.#lost].toSorted()].join('\n'));
  }

  async list(): Promise<{ devices: readonly Device[]; notes: readonly string[] }> {
    if (this.#program() === undefined) return { devices: [], notes: [] };
    const { rows, answer } = await this.#queryGpus();
    this.#lost.clear();
    const devices = rows.map((row) => this.#device(row));
    const listed = new Set(rows.map(keyOf));
    for (const key of this.#known.keys()) if (!listed.has(key)) this.#lost.add(key);
    const failed = answer.exitCode !== 0;
    return { devices, notes: failed ? [`nvidia-smi failed: ${firstWords(answer)}.`] : [] };
  }

  close(): void {
    this.#pending = undefined;
  }

  #device(row: GpuRow): Device {
    const key = keyOf(row);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const info: DeviceInfo = {
      id: `gpu:${this.#numbers.numberOf(key, row.index)}`,
      kind: 'gpu',
      name: row.name === 'unknown' ? 'NVIDIA GPU' : row.name,
      source: 'nvidia-smi',
      provenance: 'measured',
      uuid: row.uuid,
      driver: row.driver,
    };
    const device: Device = {
      info,
      read: async () => readingOf(await this.#readRow(info.id, key)),
      processes: () => this.#processes(row.uuid),
    };
    this.#known.set(key, device);
    return device;
  }

  async #readRow(id: string, key: string): Promise<GpuRow | undefined> {
    const { rows, answer } = await this.#queryGpus();
    const row = rows.find((candidate) => keyOf(candidate) === key);
    if (row === undefined && (answer.exitCode === 0 || lostExitCodes.has(answer.exitCode))) {
      this.#lost.add(key);
      throw new DeviceLost(id, 'nvidia-smi no longer lists it');
    }
    return row;
  }

  async #processes(uuid: Known<string>): Promise<Known<readonly ProcessReading[]>> {
    const program = this.#program();
    if (program === undefined || uuid === 'unknown') return 'unknown';
    const answer = await runNvidiaSmi(
      program.path,
      [`--query-compute-apps=${processFields.join(',')}`, '--format=csv,noheader,nounits'],
      this.#options.timeLimitMs,
    );
    if (answer.exitCode !== 0) return 'unknown';
    const largest = new Map<number, ProcessReading>();
    for (const { gpuUuid, pid, name, usedBytes } of parseProcessRows(answer.stdout)) {
      // In MIG mode one process has a row for each instance; their sum would count it right only
      // where all are known, so the largest stands.
      const other = largest.get(pid)?.usedBytes;
      const isLarger =
        other === undefined ||
        (usedBytes !== 'unknown' && (other === 'unknown' || usedBytes > other));
      if (gpuUuid === uuid && isLarger) largest.set(pid, { pid, name, usedBytes });
    }
    return sortProcesses(largest.values());
  }

  /** All GPUs come in one answer: devices that are read at the same time share one process. */
  #queryGpus(): Promise<GpuAnswer> {
    this.#pending ??= this.#runGpuQuery().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #runGpuQuery(): Promise<GpuAnswer> {
    const program = this.#program();
    const answer =
      program === undefined
        ? { stdout: '', stderr: 'nvidia-smi is not on the PATH any more', exitCode: 9 }
        : await runNvidiaSmi(
            program.path,
            [`--query-gpu=${gpuFields.join(',')}`, '--format=csv,noheader,nounits'],
            this.#options.timeLimitMs,
          );
    return { rows: parseGpuRows(answer.stdout), answer };
  }

  #program(): ReturnType<typeof findNvidiaSmi> {
    return findNvidiaSmi(this.#options.env ?? process.env, process.platform);
  }
}

interface GpuAnswer {
  readonly rows: readonly GpuRow[];
  readonly answer: ProgramAnswer;
}

/** A program that failed or was stopped tells nothing; that is not yet a lost GPU. */
function readingOf(row: GpuRow | undefined): MemoryReading {
  return {
    totalBytes: row?.totalBytes ?? 'unknown',
    usedBytes: row?.usedBytes ?? 'unknown',
    freeBytes: row?.freeBytes ?? 'unknown',
    utilizationPercent: row?.utilizationPercent ?? 'unknown',
  };
}

function keyOf(row: GpuRow): string {
  return row.uuid === 'unknown' ? `nvidia ${row.index}` : row.uuid;
}

function firstWords({ exitCode, stderr, stdout }: ProgramAnswer): string {
  const line = `${stderr}\n${stdout}`.split('\n').find((text) => text.trim() !== '');
  const words = line?.trim().slice(0, 200).replace(/\.$/, '') ?? 'it said nothing';
  return exitCode === undefined ? `it was stopped or could not run (${words})` : words;
}

/** Fields of `--query-gpu`, in this order. */
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

/** Fields of `--query-compute-apps`, in this order. */
export const processFields = ['gpu_uuid', 'pid', 'process_name', 'used_memory'] as const;

interface GpuRow {
  readonly index: number;
  readonly uuid: Known<string>;
  readonly name: Known<string>;
  readonly driver: Known<string>;
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly utilizationPercent: Known<number>;
}

interface ProcessRow {
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
