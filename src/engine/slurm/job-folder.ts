import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../files/make-folder.js';
import { readOwnDocument } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import type { ClusterOrder } from '../cluster.js';
import type { SlurmRequest } from './request.js';

/** What a job was submitted as; it does not change. */
export interface SlurmOrder extends Omit<ClusterOrder, 'options'> {
  readonly schema: 1;
  readonly key: string;
  readonly submittedAt: string;
  readonly sbatchOptions: readonly string[];
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  /** Where the peaks of all jobs are kept. */
  readonly measured: string;
}

/** One submission to Slurm: the first, or the successor of one that ran out of memory. */
export interface SlurmAttempt {
  readonly schema: 1;
  readonly number: number;
  readonly request: SlurmRequest;
  /** `unknown` between the decision and Slurm's answer. */
  readonly slurmId: Known<string>;
  /** What it was called before Slurm's controller lost it. */
  readonly formerIds?: readonly string[];
}

/** How an attempt ended, as the node wrote it, or as Slurm said. */
export interface SlurmEnd {
  readonly schema: 1;
  readonly outcome: 'succeeded' | 'failed' | 'cancelled';
  readonly exitCode: Known<number>;
  readonly outOfMemory: boolean;
  readonly peakBytes: Known<number>;
  readonly node: string;
  readonly endedAt: string;
  /** In Slurm's word where it ended the job, such as TIMEOUT; else empty. */
  readonly slurmState: string;
}

/** A task of an array has attempts of its own from its second one on. */
export type Task = number | 'all';

/** How often a node says that it runs a job. */
export const runningMs = 5000;
/** A command and its options have some MiB at most. */
const maxBytes = 16 * MiB;

/** The files of one job on the shared file system. Each is written once, whole. */
export class SlurmJobFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  get key(): string {
    return this.path.slice(this.path.lastIndexOf('/') + 1);
  }

  create(order: SlurmOrder): void {
    for (const part of ['', 'attempts', 'ends', 'started', 'ended', 'lost'])
      makeFolder(join(this.path, part), 0o700);
    writeWhole(join(this.path, 'job.json'), order);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  order(): SlurmOrder | undefined {
    const order = readOwnDocument(join(this.path, 'job.json'), { schema: 1, maxBytes });
    return order !== undefined && isOrder(order) ? order : undefined;
  }

  writeAttempt(task: Task, attempt: SlurmAttempt): void {
    writeWhole(this.#attemptFile(task, attempt.number), attempt);
  }

  /** Whether this call made it: of several processes one does. */
  claimAttempt(task: Task, attempt: SlurmAttempt): boolean {
    return writeOnce(this.#attemptFile(task, attempt.number), attempt);
  }

  attempt(task: Task, number: number): SlurmAttempt | undefined {
    const found = readOwnDocument(this.#attemptFile(task, number), { schema: 1, maxBytes });
    return found !== undefined && isAttempt(found) ? found : undefined;
  }

  /** Those of a task, in their order; the first is that of all tasks. */
  attempts(task: Task): readonly SlurmAttempt[] {
    const found: SlurmAttempt[] = [];
    for (let number = 1; ; number++) {
      const attempt = this.attempt(number === 1 ? 'all' : task, number);
      if (attempt === undefined) return found;
      found.push(attempt);
    }
  }

  /** By the node, which saw it: a job that is started again by hand ends again. */
  writeEnd(task: Task, number: number, end: SlurmEnd): void {
    writeWhole(this.#endFile(task, number), end);
  }

  /** As Slurm says it, which forgets it soon; what the node wrote stays. */
  keepEnd(task: Task, number: number, end: SlurmEnd): void {
    writeOnce(this.#endFile(task, number), end);
  }

  end(task: Task, number: number): SlurmEnd | undefined {
    const found = readOwnDocument(this.#endFile(task, number), { schema: 1, maxBytes });
    return found !== undefined && isEnd(found) ? found : undefined;
  }

  /** The node that runs it writes this again and again, until it marks it as ended. */
  markRunning(slurmId: string, restart: number): void {
    const at = { at: new Date().toISOString() };
    writeWhole(join(this.path, 'started', `${slurmId}.${restart}`), at);
  }

  /** A node may be running it: one wrote so a moment ago, and none that it is over. */
  mayRun(withinMs: number): boolean {
    const over = new Set(readdirSync(join(this.path, 'ended')));
    const open = readdirSync(join(this.path, 'started')).filter((name) => !over.has(name));
    if (open.length === 0) return false;
    // By the clock of the file system: those of nodes differ.
    const probe = join(this.path, 'probe');
    writeWhole(probe, {});
    const nowMs = statSync(probe).mtimeMs;
    return open.some(
      (name) => nowMs - statSync(join(this.path, 'started', name)).mtimeMs < withinMs,
    );
  }

  /** Of several processes that see that Slurm lost it, one submits it again. */
  claimLost(slurmId: string, olderThanMs: number): boolean {
    const path = join(this.path, 'lost', slurmId);
    if (writeOnce(path, { at: new Date().toISOString() })) return true;
    // The process that claimed it died before it could submit.
    return statSync(path).mtimeMs < olderThanMs;
  }

  /** Tells the batch script that the node is done with this start of the job. */
  markEnded(slurmId: string, restart: number): void {
    writeWhole(join(this.path, 'ended', `${slurmId}.${restart}`), { at: new Date().toISOString() });
  }

  /** No successor is submitted from now on. */
  markCancelled(): void {
    writeOnce(join(this.path, 'cancelled'), { at: new Date().toISOString() });
  }

  get isCancelled(): boolean {
    return existsSync(join(this.path, 'cancelled'));
  }

  logFile(slurmId: string): string {
    return join(this.path, `log-${slurmId}.txt`);
  }

  reportFile(slurmId: string, restart: number): string {
    return join(this.path, `report-${slurmId}.${restart}.json`);
  }

  #endFile(task: Task, number: number): string {
    return join(this.path, 'ends', `${task}.${number}.json`);
  }

  #attemptFile(task: Task, number: number): string {
    return join(this.path, 'attempts', `${task}.${number}.json`);
  }
}

function slurmFolder(home: string): string {
  return join(home, 'slurm');
}

/** Names begin with the time, to the millisecond, so that they sort by it. */
export function newJobFolder(home: string, atMs: number): SlurmJobFolder {
  const time = new Date(atMs).toISOString().replaceAll(/[-:.]/g, '');
  const key = `${time}-${randomBytes(4).toString('hex')}`;
  return new SlurmJobFolder(join(slurmFolder(home), 'jobs', key));
}

/** The newest first. */
export function jobFolders(home: string): readonly SlurmJobFolder[] {
  const all = join(slurmFolder(home), 'jobs');
  if (!existsSync(all)) return [];
  const names = readdirSync(all).filter((name) => /^\d{8}T\d{9}Z-[0-9a-f]{8}$/.test(name));
  return names
    .toSorted()
    .toReversed()
    .map((name) => new SlurmJobFolder(join(all, name)));
}

function writeWhole(path: string, document: object): void {
  const temporary = writeBeside(path, document);
  renameSync(temporary, path);
}

/** A link to a name that is taken fails on every file system, shared ones included. */
function writeOnce(path: string, document: object): boolean {
  const temporary = writeBeside(path, document);
  try {
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(temporary);
  }
}

function writeBeside(path: string, document: object): string {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    writeFileSync(file, `${JSON.stringify(document)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return temporary;
}

type Document = Readonly<Record<string, unknown>>;

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function isOrder(order: Document): order is Document & SlurmOrder {
  const { key, name, cwd, submittedAt, workloadKey, measured, gpus, maxAttempts } = order;
  return (
    [key, name, cwd, submittedAt, workloadKey, measured].every(
      (text) => typeof text === 'string',
    ) &&
    [gpus, maxAttempts].every((number) => Number.isSafeInteger(number)) &&
    [order['command'], order['sbatchOptions'], order['plimsoll']].every(isTexts)
  );
}

function isAttempt(attempt: Document): attempt is Document & SlurmAttempt {
  const { number, slurmId, request } = attempt;
  return (
    Number.isSafeInteger(number) &&
    typeof slurmId === 'string' &&
    typeof request === 'object' &&
    request !== null &&
    'gres' in request
  );
}

function isEnd(end: Document): end is Document & SlurmEnd {
  const { outcome, node, endedAt } = end;
  return (
    typeof outcome === 'string' &&
    ['succeeded', 'failed', 'cancelled'].includes(outcome) &&
    typeof node === 'string' &&
    typeof endedAt === 'string'
  );
}
